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

	"slipway.dev/slipway/api/finding"
)

// requirement is a module that a go.mod file requires.
type requirement struct {
	// version is the one that is compiled: that of a replacement with the same path,
	// if there is one.
	version string
	// required is the version before replacements. The compiler writes it into the
	// names of files, so it has to be the same, too.
	required string
	indirect bool
}

// String is the version, with its replacement.
func (r requirement) String() string {
	if r.version == r.required {
		return r.version
	}
	return r.required + " => " + r.version
}

// CheckVersions compares the modules that two Go modules of a repository both
// require. Different versions are a finding: the go command then compiles the
// module, and everything that depends on it, twice.
func CheckVersions(ctx context.Context, first, second string) ([]finding.Finding, error) {
	a, err := requirements(ctx, first)
	if err != nil {
		return nil, err
	}
	b, err := requirements(ctx, second)
	if err != nil {
		return nil, err
	}
	var findings []finding.Finding
	for path, one := range a {
		// Only paths in both modules are compared; each may have its own.
		if other, shared := b[path]; shared && (other.version != one.version || other.required != one.required) {
			findings = append(findings, violation(filepath.ToSlash(filepath.Join(second, "go.mod")),
				"requires %s %s, and %s requires %s; require one version in both", path, other, filepath.ToSlash(filepath.Join(first, "go.mod")), one))
		}
	}
	sortFindings(findings)
	return findings, nil
}

// CheckWorkspace compares the versions that modules require with those that a workspace
// chooses for all of them together, of the modules that packages in folders below it
// depend on. Different ones are a finding: what the workspace compiles is then compiled
// again for the module.
func CheckWorkspace(ctx context.Context, workspace string, packages, modules []string) ([]finding.Finding, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}"}, packages...)...)
	command.Dir = filepath.Dir(workspace)
	command.Env = append(os.Environ(), "GOWORK="+workspace)
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules of %s: %w", workspace, err)
	}
	chosen := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		chosen[path] = version
	}
	var findings []finding.Finding
	for _, module := range modules {
		required, err := requirements(ctx, module)
		if err != nil {
			return nil, err
		}
		for path, one := range required {
			if version, used := chosen[path]; used && version != one.required {
				findings = append(findings, violation(filepath.ToSlash(filepath.Join(module, "go.mod")),
					"requires %s %s, and %s chooses %s; require that version", path, one.required, filepath.Base(workspace), version))
			}
		}
	}
	sortFindings(findings)
	return findings, nil
}

// chosenPart matches a module path in backquotes in the table of chosen parts.
var chosenPart = regexp.MustCompile("`([a-z0-9.-]+\\.[a-z]+(?:/[A-Za-z0-9._~-]+)*)`")

// CheckDependencies compares the direct requirements of modules with the table
// below the heading "Chosen parts" of a page. Each requirement needs a row that
// names it in backquotes, and each row needs a module that requires it.
// Indirect requirements are not checked, since the direct ones choose them.
func CheckDependencies(ctx context.Context, page string, modules ...string) ([]finding.Finding, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), "\n## Chosen parts\n")
	if !found {
		return nil, fmt.Errorf("%s has no heading \"Chosen parts\"", page)
	}
	// Backquotes in later sections are not rows of the table.
	table, _, _ = strings.Cut(table, "\n## ")
	// The value is whether a module requires the path; it is set below.
	chosen := map[string]bool{}
	for _, match := range chosenPart.FindAllStringSubmatch(table, -1) {
		chosen[match[1]] = false
	}
	var findings []finding.Finding
	for _, module := range modules {
		required, err := requirements(ctx, module)
		if err != nil {
			return nil, err
		}
		for path, one := range required {
			// The go command maintains indirect requirements.
			if one.indirect {
				continue
			}
			if _, ok := chosen[path]; !ok {
				findings = append(findings, violation(filepath.ToSlash(filepath.Join(module, "go.mod")),
					"requires %s, which has no row in the table of chosen parts; add one with the reason", path))
			}
			chosen[path] = true
		}
	}
	// Rows that outlive their module mislead readers of the page.
	for path, used := range chosen {
		if !used {
			findings = append(findings, violation(filepath.ToSlash(page),
				"the table of chosen parts names %s, which no go.mod requires directly; remove it", path))
		}
	}
	sortFindings(findings)
	return findings, nil
}

// requirements returns the requirements of the module in dir. go mod edit reads
// the file only and never accesses the network.
func requirements(ctx context.Context, dir string) (map[string]requirement, error) {
	command := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("read go.mod of %s: %w", dir, err)
	}
	// The names follow the JSON of go mod edit, which is documented in go help
	// mod edit.
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
		required[one.Path] = requirement{version: one.Version, required: one.Version, indirect: one.Indirect}
	}
	for _, one := range file.Replace {
		// A replacement by another path or by a folder keeps the version: the
		// comparison is about modules that share a path.
		if old, ok := required[one.Old.Path]; ok && one.New.Path == one.Old.Path {
			old.version = one.New.Version
			required[one.Old.Path] = old
		}
	}
	return required, nil
}
