package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// CheckRooms compares the packages below dir with the map of a page: the fenced
// block below the heading "The rooms", where the first word of each line that
// is not indented is a folder. A package that is missing from the map is a
// finding, and so is a line for a folder that does not exist.
func CheckRooms(page, dir string, rules SourceRules) ([]finding.Finding, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut(string(text), "\n## The rooms\n")
	if !found {
		return nil, fmt.Errorf("%s has no heading \"The rooms\"", page)
	}
	// The map is the first fenced block of the section.
	_, block, found := strings.Cut(section, "\n```\n")
	if block, _, _ = strings.Cut(block, "\n```"); !found || block == "" {
		return nil, fmt.Errorf("%s has no block below the heading \"The rooms\"", page)
	}
	// Indented lines continue the description of the folder above.
	rooms := map[string]bool{}
	for line := range strings.Lines(block) {
		if room, _, _ := strings.Cut(strings.TrimSpace(line), " "); room != "" && line[0] != ' ' {
			rooms[strings.TrimSuffix(room, "/")] = true
		}
	}
	packages, err := packageFolders(dir, rules)
	if err != nil {
		return nil, err
	}
	var findings []finding.Finding
	// Every package needs its own line: a line of a parent folder is not
	// enough.
	for _, folder := range packages {
		if !rooms[folder] {
			findings = append(findings, violation(folder, "is a package and not on the map; add a line below \"The rooms\" of %s", filepath.ToSlash(page)))
		}
	}
	// The map may also name folders without Go code. They only have to exist.
	for room := range rooms {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(room))); err != nil || !info.IsDir() {
			findings = append(findings, violation(filepath.ToSlash(page), "the map has %s, which is no folder; remove the line", room))
		}
	}
	sortFindings(findings)
	return findings, nil
}

// packageFolders returns the folders below dir that contain Go files, including
// tests, in the order of the walk. rules has the folders to skip.
func packageFolders(dir string, rules SourceRules) ([]string, error) {
	var folders []string
	err := eachGoFile(rules, dir, func(name string) error {
		// Subfolders may come between two files of a folder, so comparing with
		// the last entry is not enough.
		if folder := path.Dir(name); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		return nil
	})
	return folders, err
}
