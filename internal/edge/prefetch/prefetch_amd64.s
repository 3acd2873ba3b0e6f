#include "textflag.h"

// func forReading(p unsafe.Pointer)
TEXT ·forReading(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func forWriting(p unsafe.Pointer)
TEXT ·forWriting(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	// PREFETCHW (AX), which the assembler has no name for. Processors that do not
	// know it do nothing.
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08
	RET
