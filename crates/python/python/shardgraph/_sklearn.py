"""scikit-learn's base classes, or as much of them as an estimator needs without it."""

from typing import Any

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    import inspect

    class BaseEstimator:
        """get_params and set_params by the constructor's names."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The constructor's arguments."""
            names = list(inspect.signature(type(self).__init__).parameters)[1:]
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> Any:
            """Sets constructor arguments."""
            for name, value in params.items():
                if name not in self.get_params():
                    raise ValueError(f"{name} is no parameter of {type(self).__name__}")
                setattr(self, name, value)
            return self

    class TransformerMixin:
        """Nothing without scikit-learn."""

    class ClassifierMixin:
        """The score of a classifier."""

        def score(self: Any, X: Any, y: Any) -> float:
            """The share of right classes."""
            return float((self.predict(X) == y).mean())

    def check_is_fitted(estimator: Any, attribute: str) -> None:
        """Raises where an estimator was not fitted."""
        if not hasattr(estimator, attribute):
            raise AttributeError(f"this {type(estimator).__name__} is not fitted: call fit first")

    def validate_data(estimator: Any, X: Any, **_: Any) -> Any:
        """The matrix, and its number of columns noted as scikit-learn does."""
        X = X if hasattr(X, "tocsr") else np.asarray(X)
        estimator.n_features_in_ = X.shape[1]
        return X


__all__ = ["BaseEstimator", "ClassifierMixin", "TransformerMixin", "check_is_fitted", "validate_data"]
