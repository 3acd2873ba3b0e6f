// Package archtest keeps docs/architecture.md true: who may import whom, and
// how names, sizes and comments look. It is a test, so a boundary is moved by
// a decision and never by accident.
//
// HouseTable and HouseRules are this repository's rules, written out as
// literals. CheckImports and CheckSource apply rules to a folder and return
// every finding at once; they change nothing and know nothing about Slipway.
//
// Imports of test files are not judged: a test may look at anything. Nor are
// folders that hold no Go of ours, such as bin and web.
//
// See decision 0003 in docs/decisions: staticcheck and not golangci-lint.
package archtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one place that breaks a rule.
type Finding struct {
	Where   string // a package such as ./internal/edge, a folder or a file
	Line    int    // of the file; 0 means all of it
	Message string // what is wrong and what to do
}

// String is the finding on one line, in the compiler's form.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Where + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.Where, f.Line, f.Message)
}

func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
}
