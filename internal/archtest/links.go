package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"slipway.dev/slipway/api/finding"
)

// pageLink matches the target of a link in Markdown, and fencedCode a block of
// code, in which nothing is a link or a heading.
var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fencedCode  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// CheckLinks reports links of the Markdown pages below dir whose file or heading
// does not exist. Links to other sites are not followed. A text without a title
// is a part of other pages and is skipped: its links are relative to those.
func CheckLinks(rules SourceRules, dir string) ([]finding.Finding, error) {
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(rules.SkipAnywhere, d.Name()) || slices.Contains(rules.SkipAtRoot, name)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		pages[name] = fencedCode.ReplaceAllLiteralString(string(text), "")
		return err
	})
	if err != nil {
		return nil, err
	}
	var findings []finding.Finding
	for name, text := range pages {
		if !pageHeading.MatchString(text) {
			continue
		}
		for _, match := range pageLink.FindAllStringSubmatch(text, -1) {
			file, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(file, ":") {
				continue // another site
			}
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			page, isPage := pages[target]
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(target))); err != nil {
				findings = append(findings, violation(name, "links to %s, which does not exist", match[1]))
			} else if fragment != "" && isPage && !slices.Contains(anchors(page), fragment) {
				findings = append(findings, violation(name, "links to %s, and %s has no such heading", match[1], target))
			}
		}
	}
	sortFindings(findings)
	return findings, nil
}

// anchors returns the fragments of the headings of a page, as GitHub derives
// them: repeated headings are numbered.
func anchors(page string) []string {
	var all []string
	count := map[string]int{}
	for _, heading := range pageHeading.FindAllStringSubmatch(page, -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading[1]))
		if n := count[anchor]; n > 0 {
			all = append(all, anchor+"-"+strconv.Itoa(n))
		} else {
			all = append(all, anchor)
		}
		count[anchor]++
	}
	return all
}
