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
	"strconv"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// violation returns a finding about a package such as ./internal/edge, a folder, a
// file, or a line of it as file:line. That is the form of compiler errors,
// which editors and CI link to the source.
func violation(place, format string, args ...any) finding.Finding {
	return finding.Finding{Severity: finding.Error, Subject: place, Message: fmt.Sprintf(format, args...)}
}

// sortFindings sorts findings by file and line. Checks collect them from maps,
// and the output of a failed test has to be stable.
func sortFindings(findings []finding.Finding) {
	slices.SortFunc(findings, func(a, b finding.Finding) int {
		fileA, lineA, _ := strings.Cut(a.Subject, ":")
		fileB, lineB, _ := strings.Cut(b.Subject, ":")
		numberA, _ := strconv.Atoi(lineA) // 0 for a file as a whole
		numberB, _ := strconv.Atoi(lineB)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(numberA, numberB), cmp.Compare(a.Message, b.Message))
	})
}
