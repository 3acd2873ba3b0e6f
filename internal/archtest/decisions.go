package archtest

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// Forms of a decision record: its file name, its status line, a reference to
// one or more records in a package comment ("decisions 0003, 0007 and 0012"),
// and the number in such a reference.
var (
	// A record is called NNNN-title.md.
	decisionFile = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	// The status is on a line of its own, after the date.
	decisionStatus = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d\. Status: (accepted|replaced by \d{4})$`)
	decisionName   = regexp.MustCompile(`(?i)decisions? (\d{4})(?:(?:, | and )(\d{4}))*`)
	decisionNumber = regexp.MustCompile(`\d{4}`)
)

// CheckDecisions checks the decision records in a folder. Each needs a line
// with a date and a status, and each accepted record has to be named in the
// package comment of the code that it governs, where a reader of the code finds
// it. Replaced records need no reference.
func CheckDecisions(folder, dir string, rules SourceRules) ([]finding.Finding, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	named, err := decisionsInPackageComments(dir, rules)
	if err != nil {
		return nil, err
	}
	var findings []finding.Finding
	for _, entry := range entries {
		// Other files, such as an index, are not records.
		match := decisionFile.FindStringSubmatch(entry.Name())
		if match == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		status := decisionStatus.FindSubmatch(text)
		switch {
		case status == nil:
			findings = append(findings, violation(entry.Name(), `has no line such as "2026-01-31. Status: accepted" or "2026-01-31. Status: replaced by 0042"`))
		// A record that is replaced stays for its history and governs no code.
		case string(status[1]) == "accepted" && !named[match[1]]:
			findings = append(findings, violation(entry.Name(),
				"no package comment names decision %s; name it in the package that it governs", match[1]))
		}
	}
	sortFindings(findings)
	return findings, nil
}

// decisionsInPackageComments returns the numbers of the decisions that package
// comments below dir refer to. It parses only up to the package clause, so it
// is fast and works on files that do not compile.
func decisionsInPackageComments(dir string, rules SourceRules) (map[string]bool, error) {
	named := map[string]bool{}
	err := eachGoFile(rules, dir, func(name string) error {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, filepath.FromSlash(name)), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		// Whitespace is normalized, because a reference may span two lines.
		comment := strings.Join(strings.Fields(tree.Doc.Text()), " ")
		// The expression keeps only the last repeated group, so the numbers are
		// extracted from the whole match.
		for _, match := range decisionName.FindAllString(comment, -1) {
			for _, number := range decisionNumber.FindAllString(match, -1) {
				named[number] = true
			}
		}
		return nil
	})
	return named, err
}
