package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	decisionFile   = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	decisionStatus = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d\. Status: (accepted|replaced by \d{4})$`)
	decisionName   = regexp.MustCompile(`(?i)decisions? (\d{4})(?:(?:, | and )(\d{4}))*`)
	decisionNumber = regexp.MustCompile(`\d{4}`)
)

// CheckDecisions looks at the decision records in a folder. Each has a date and
// a status, and one that is accepted is named in the package comment of the
// code that it governs, where a reader of the code finds it.
func CheckDecisions(folder, dir string, rules SourceRules) ([]Finding, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	named, err := decisionsInPackageComments(dir, rules)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, entry := range entries {
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
			findings = append(findings, Finding{Where: entry.Name(), Message: `has no line such as "2026-01-31. Status: accepted" or "2026-01-31. Status: replaced by 0042"`})
		case string(status[1]) == "accepted" && !named[match[1]]:
			findings = append(findings, Finding{Where: entry.Name(), Message: fmt.Sprintf(
				"no package comment names decision %s; name it in the package that it governs", match[1])})
		}
	}
	sortFindings(findings)
	return findings, nil
}

// decisionsInPackageComments collects the numbers of the decisions that the
// package comments below dir name.
func decisionsInPackageComments(dir string, rules SourceRules) (map[string]bool, error) {
	named := map[string]bool{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(rules.SkipAnywhere, d.Name()) || slices.Contains(rules.SkipAtRoot, name)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, filepath.FromSlash(name)), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		comment := strings.Join(strings.Fields(tree.Doc.Text()), " ") // a name may be broken over two lines
		for _, match := range decisionName.FindAllString(comment, -1) {
			for _, number := range decisionNumber.FindAllString(match, -1) {
				named[number] = true
			}
		}
		return nil
	})
	return named, err
}
