package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// CheckRooms compares the packages below dir with the map: the fenced block
// below the heading "The rooms" of a page, where the first word of each line
// that is not indented is a folder. A package that is not on the map is a
// finding, and so is a line for a folder that does not exist.
func CheckRooms(page, dir string, rules SourceRules) ([]Finding, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut(string(text), "\n## The rooms\n")
	if !found {
		return nil, fmt.Errorf("%s has no heading \"The rooms\"", page)
	}
	_, block, found := strings.Cut(section, "\n```\n")
	if block, _, _ = strings.Cut(block, "\n```"); !found || block == "" {
		return nil, fmt.Errorf("%s has no block below the heading \"The rooms\"", page)
	}
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
	var findings []Finding
	for _, folder := range packages {
		if !rooms[folder] {
			findings = append(findings, Finding{Where: folder, Message: "is a package and not on the map; add a line below \"The rooms\" of " + filepath.ToSlash(page)})
		}
	}
	for room := range rooms {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(room))); err != nil || !info.IsDir() {
			findings = append(findings, Finding{Where: filepath.ToSlash(page), Message: fmt.Sprintf("the map has %s, which is no folder; remove the line", room)})
		}
	}
	sortFindings(findings)
	return findings, nil
}

// packageFolders lists the folders below dir that contain Go files, tests
// included, in order.
func packageFolders(dir string, rules SourceRules) ([]string, error) {
	var folders []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(rules.SkipAnywhere, d.Name()) || slices.Contains(rules.SkipAtRoot, name)):
			return fs.SkipDir
		case !d.IsDir() && path.Ext(name) == ".go":
			if folder := path.Dir(name); !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
		return nil
	})
	return folders, err
}
