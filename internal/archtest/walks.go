package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// A walk is a section of the map that names files in the order in which something passes
// them. walkHeading begins one, walkRoot has the folder that its paths are below, and
// walkFile matches a file.
var (
	walkHeading = regexp.MustCompile(`(?m)^## (The life of .+)$`)
	walkRoot    = regexp.MustCompile("(?i)paths are below `([^`]+)`")
	walkFile    = regexp.MustCompile("`([a-z0-9/_]+\\.go)`")
)

// CheckWalks reports files of the walks in the map below dir that do not exist, and those
// that a walk names twice: what comes back to a file has no order that a reader can follow.
func CheckWalks(dir string) ([]finding.Finding, error) {
	const page = "docs/architecture.md"
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	var findings []finding.Finding
	for section := range strings.SplitSeq("\n"+string(text), "\n## ") {
		section = "## " + section
		heading := walkHeading.FindStringSubmatch(section)
		if heading == nil {
			continue
		}
		below := walkRoot.FindStringSubmatch(section)
		if below == nil {
			findings = append(findings, violation(page, "%s does not name the folder that its paths are below", heading[1]))
			continue
		}
		seen := map[string]bool{}
		for _, match := range walkFile.FindAllStringSubmatch(section, -1) {
			file := match[1]
			if !strings.HasPrefix(file, "internal/") {
				file = path.Join(below[1], file)
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
				findings = append(findings, violation(page, "%s names %s, which does not exist", heading[1], file))
			}
			if seen[file] {
				findings = append(findings, violation(page, "%s names %s twice", heading[1], file))
			}
			seen[file] = true
		}
	}
	return findings, nil
}
