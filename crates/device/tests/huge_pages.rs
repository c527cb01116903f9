//! What tables leave in the process: in a program of its own, as other tests would add to its memory.
#![cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]

use shardgraph_device::Device;

/// Memory of the process, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib = line.trim().strip_suffix(" kB")?;
    Some(1024 * kib.parse::<u64>().ok()?)
}

/// Tables between small blocks that stay: an allocator that keeps them has their memory still.
#[test]
fn tables_go_back_to_the_system_when_dropped() {
    // A large block that is freed makes glibc take smaller ones from its heaps.
    drop(std::hint::black_box(vec![1u8; 24 << 20]));
    let device = Device::host();
    let before = resident().unwrap();
    let (n, len) = (64, 1 << 20);
    let table = |len| {
        let mut table = device.zeros_on_huge_pages::<f32>(len).unwrap();
        table.as_host_mut().unwrap().fill(1.0);
        table
    };
    let tables: Vec<_> = (0..n).map(|_| (table(len), table(500))).collect();
    let bytes = n * 4 * len as u64;
    assert!(
        resident().unwrap() > before + bytes / 2,
        "pages that were touched"
    );
    let small: Vec<_> = tables.into_iter().map(|(_, small)| small).collect();
    let (after, n_small) = (resident().unwrap(), small.len());
    assert!(after < before + bytes / 4, "{before} {after} {n_small}");
}
