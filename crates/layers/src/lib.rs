//! Graph network layers: structure2vec and the Q head of OpenGraphGym-MG, sharded over ranks.
