//! Counting on short listings.

use super::*;

/// The lines of cuobjdump 13.2 for these instructions, 16 bytes each, on each architecture.
fn listing(code: &[&str]) -> String {
    let mut text = String::new();
    for architecture in ARCHITECTURES {
        text += &format!(
            "\nFatbin elf code:\n================\narch = {architecture}\ncompressed\n\n\t\
             Function : k_fwd\n\t.headerflags\t@\"EF_CUDA_SM90\"\n"
        );
        for (idx, instruction) in code.iter().enumerate() {
            text += &format!(
                "        /*{:04x}*/                   {instruction} ;    /* 0x000009 */\n{}",
                16 * idx,
                "                                       /* 0x000fe400078e00ff */\n"
            );
        }
        text += "\t\t..........\n\nFatbin ptx code:\n================\narch = sm_90\n";
    }
    text
}

fn found(code: &[&str]) -> Found {
    let listing = listing(code);
    let functions = functions(&listing);
    assert_eq!(functions.len(), ARCHITECTURES.len());
    Found::new(&functions[1].instructions)
}

#[test]
fn a_line_is_an_address_a_predicate_an_opcode_and_operands() {
    let read = instruction("/*0570*/              @!P0 BRA 0x4b0 ;     /* 0xffffff3000000947 */");
    let expected = Instruction {
        address: 0x570,
        is_predicated: true,
        opcode: "BRA",
        operands: "0x4b0",
    };
    assert_eq!(read.as_ref(), Some(&expected));
    assert_eq!(read.as_ref().and_then(flow::target), Some(0x4b0));
    assert_eq!(
        instruction("/*0010*/ EXIT ;").map(|i| i.opcode),
        Some("EXIT")
    );
    assert_eq!(instruction("/* 0x000fe400078e00ff */"), None);
    assert_eq!(instruction(".headerflags @\"EF_CUDA_SM90\""), None);
}

/// A loop of three instructions in a loop, a shorter one behind it, and a subroutine.
const NEST: [&str; 16] = [
    "I2F.U32.RP R0, c[0x0][0x19c]",   // 00: a division before the loops
    "LDG.E.128.CONSTANT R4, [R2.64]", // 10: the outer header
    "I2F.U64.RP R0, R2",              // 20: the inner header
    "LDG.E.CONSTANT R4, [R2.64]",     // 30
    "@P0 BRA 0x20",                   // 40
    "CALL.REL.NOINC 0xd0",            // 50
    "@!P1 BRA 0x10",                  // 60: the outer latch
    "LDS.128 R4, [R2]",               // 70: the header of the short loop
    "BRA.U UP0, 0x70",                // 80
    "STL [R1], R4",                   // 90
    "LDL R4, [R1]",                   // a0
    "I2F.U32 R0, R2",                 // b0: a conversion
    "EXIT",                           // c0
    "IMAD R2, R2, R3, RZ",            // d0
    "RET.REL.NODEC R2 0x0",           // e0
    "BRA 0xf0",                       // f0
];

#[test]
fn instructions_are_counted_by_what_they_cost() {
    let expected = Found {
        instructions: 15,
        hot_loop: 3,
        divisions: 2,
        divisions_in_loops: 1,
        calls: 1,
        local_accesses: 2,
        wide_loads: 1,
    };
    assert_eq!(found(&NEST), expected);
}

#[test]
fn code_without_a_loop_counts_whole() {
    let code = [
        "S2R R0, SR_TID.X",
        "@P0 EXIT",
        "MOV R1, R2",
        "EXIT",
        "BRA 0x40",
        "NOP",
    ];
    assert_eq!(found(&code).hot_loop, 4);
}

/// A rotated loop is entered in its middle, and its latch falls through to the header.
#[test]
fn a_rotated_loop_is_a_loop() {
    let code = [
        "BRA 0x20",
        "FADD R0, R0, R1",
        "ISETP P0",
        "@P0 BRA 0x10",
        "EXIT",
    ];
    assert_eq!(found(&code).hot_loop, 3);
}

/// Code for diverged warps stands behind the end and jumps back; it is no part of the loop, nor is
/// its jump a loop. A slow path that a branch enters is.
#[test]
fn blocks_of_diverged_warps_are_left_out() {
    let end = [
        "@P0 BRA 0x0",
        "EXIT",
        "WARPSYNC.COLLECTIVE R5, 0x50",
        "SHFL R0, R0",
        "BRA 0x10",
    ];
    let with = |branch: &'static str| [&[branch, "FADD R0, R0, R1"], end.as_slice()].concat();
    assert_eq!(found(&with("BRA.DIV ~URZ, 0x40")).hot_loop, 3);
    assert_eq!(found(&with("@P1 BRA 0x40")).hot_loop, 6);
}

/// On sm_80 a call past the latch leaves a loop; what only a diverged warp calls is not counted.
#[test]
fn a_call_out_of_a_loop_is_a_way_out() {
    let code = [
        "BRA.DIV ~URZ, 0x70",
        "FADD R0, R0, R1",
        "@P0 CALL.REL.NOINC 0x40",
        "BRA 0x0",
        "@P1 BRA 0x0",
        "EXIT",
        "NOP",
        "CALL.REL.NOINC 0x60",
        "BRA 0x10",
    ];
    let found = found(&code);
    assert_eq!((found.hot_loop, found.calls), (5, 1));
}

/// The table of a switch is not in the listing: what nothing else enters is a case of it.
#[test]
fn the_cases_of_an_indirect_branch_are_read() {
    let code = [
        "BRX R2 -0x10",
        "FADD R0, R0, R1",
        "@P0 BRA 0x10",
        "EXIT",
        "BRA 0x40",
    ];
    assert_eq!(found(&code).hot_loop, 2);
}

#[test]
fn every_kernel_is_counted_on_every_architecture() {
    let kernel = |name: &str| Declaration {
        name: name.to_owned(),
        line: 1,
        signature: String::new(),
    };
    let listing = listing(&NEST);
    let mut counts = Counts::default();
    count(&listing, &[kernel("k_fwd")], &mut counts).unwrap();
    let mut expected = counts.clone();
    expected.put(Quantity::HotLoop, "k_fwd", [3; 3]);
    expected.put(Quantity::WideLoads, "k_fwd", [1; 3]);
    assert_eq!(counts, expected);
    let unknown = count(&listing, &[kernel("j_fwd")], &mut counts).unwrap_err();
    assert!(
        unknown.to_string().contains("no `j_fwd` on sm_80"),
        "{unknown}"
    );
}
