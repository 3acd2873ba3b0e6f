package archtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// requirement is one module that a go.mod file requires.
type requirement struct {
	version  string
	indirect bool
}

// CheckVersions compares the modules that two Go modules of a repository both
// require. A different version is a finding: the go command then compiles the
// module, and everything above it, twice.
func CheckVersions(ctx context.Context, first, second string) ([]Finding, error) {
	a, err := requirements(ctx, first)
	if err != nil {
		return nil, err
	}
	b, err := requirements(ctx, second)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for path, one := range a {
		if other, shared := b[path]; shared && other.version != one.version {
			findings = append(findings, Finding{Where: filepath.ToSlash(filepath.Join(second, "go.mod")), Message: fmt.Sprintf(
				"requires %s %s, and %s requires %s; require one version in both", path, other.version, filepath.ToSlash(filepath.Join(first, "go.mod")), one.version)})
		}
	}
	sortFindings(findings)
	return findings, nil
}

// chosenPart matches a module path in a row of the table of chosen parts.
var chosenPart = regexp.MustCompile("`([a-z0-9.-]+\\.[a-z]+(?:/[A-Za-z0-9._~-]+)*)`")

// CheckDependencies compares the direct requirements of a module with the table
// below the heading "Chosen parts" of a page. Each needs a row that names it in
// backquotes, and each row needs a module that still requires it.
func CheckDependencies(ctx context.Context, page string, modules ...string) ([]Finding, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), "\n## Chosen parts\n")
	if !found {
		return nil, fmt.Errorf("%s has no heading \"Chosen parts\"", page)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	chosen := map[string]bool{}
	for _, match := range chosenPart.FindAllStringSubmatch(table, -1) {
		chosen[match[1]] = false
	}
	var findings []Finding
	for _, module := range modules {
		required, err := requirements(ctx, module)
		if err != nil {
			return nil, err
		}
		for path, one := range required {
			if one.indirect {
				continue
			}
			if _, ok := chosen[path]; !ok {
				findings = append(findings, Finding{Where: filepath.ToSlash(filepath.Join(module, "go.mod")), Message: fmt.Sprintf(
					"requires %s, which has no row in the table of chosen parts; add one with the reason", path)})
			}
			chosen[path] = true
		}
	}
	for path, used := range chosen {
		if !used {
			findings = append(findings, Finding{Where: filepath.ToSlash(page), Message: fmt.Sprintf(
				"the table of chosen parts names %s, which no go.mod requires directly; remove it", path)})
		}
	}
	sortFindings(findings)
	return findings, nil
}

// requirements reads the requirements of the module in dir, replacements
// applied. It reads the file only and never the network.
func requirements(ctx context.Context, dir string) (map[string]requirement, error) {
	command := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("read go.mod of %s: %w", dir, err)
	}
	type module struct{ Path, Version string }
	var file struct {
		Require []struct {
			module
			Indirect bool
		}
		Replace []struct{ Old, New module }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return nil, fmt.Errorf("read go.mod of %s: %w", dir, err)
	}
	required := map[string]requirement{}
	for _, one := range file.Require {
		required[one.Path] = requirement{version: one.Version, indirect: one.Indirect}
	}
	for _, one := range file.Replace {
		if old, ok := required[one.Old.Path]; ok && one.New.Path == one.Old.Path {
			old.version = one.New.Version
			required[one.Old.Path] = old
		}
	}
	return required, nil
}
