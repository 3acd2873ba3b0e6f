// Package archtest enforces docs/architecture.md: which package may import
// which, and the rules for names, sizes and comments. It runs as a test, so
// that a boundary changes by a decision and not by accident.
//
// HouseTable and HouseRules are the rules of this repository, as literals.
// CheckImports and CheckSource apply rules to a folder and return all findings
// at once; they modify nothing and are independent of Slipway.
//
// Imports of test files are not checked: a test may use any package. Folders
// without Go code of this repository, such as bin and web, are skipped.
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

// String returns the finding on one line in the form of compiler errors, which
// editors and CI link to the source.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Where + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.Where, f.Line, f.Message)
}

// sortFindings sorts findings by place. Checks collect them from maps, and the
// output of a failed test has to be stable.
func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
}
