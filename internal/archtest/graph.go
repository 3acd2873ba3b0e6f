package archtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// graph is the import graph of a module and all of its dependencies. Packages
// of the module are written as ./internal/edge and all others by their import
// path, because the standard library has folders called internal as well.
type graph struct {
	ours     []string            // packages of the module, sorted
	imports  map[string][]string // imports of non-test files, sorted
	standard map[string]bool     // packages of the standard library
	broken   []finding.Finding   // packages that the go command cannot read
}

// isStandard reports whether a package is in the standard library. Packages
// that exist only on other platforms are not in the output of go list; they are
// recognized by their path, since the first element of a foreign path is a
// domain.
func (g *graph) isStandard(pkg string) bool {
	standard, known := g.standard[pkg]
	if known {
		return standard
	}
	domain, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(domain, ".")
}

// listed is the subset of the go list output that the graph needs. The fields
// are the same as in the -json flag of load.
type listed struct {
	Dir, ImportPath, Name string
	Standard              bool
	Imports               []string
	IgnoredGoFiles        []string
	Module                *struct {
		Path string
		Main bool
	}
	Error *struct{ Err string }
}

// load reads the graph with the go command, which evaluates build constraints
// and modules. -e keeps packages with errors in the output, so that they become
// findings and do not hide all others.
func load(ctx context.Context, dir string) (*graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-deps",
		"-json=Dir,ImportPath,Name,Standard,Imports,IgnoredGoFiles,Module,Error", "./...")
	cmd.Dir = dir
	// A go.work file of the developer would add modules.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", dir, err, stderr.String())
	}
	var packages []listed
	// The output is a sequence of objects and not an array.
	for dec := json.NewDecoder(&stdout); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the output of go list in %s: %w", dir, err)
		}
		packages = append(packages, p)
	}
	return newGraph(packages)
}

// newGraph builds the graph from the output of go list.
func newGraph(packages []listed) (*graph, error) {
	g := &graph{imports: map[string][]string{}, standard: map[string]bool{}}
	module := ""
	for _, p := range packages {
		if p.Module != nil && p.Module.Main {
			module = p.Module.Path
		}
	}
	// Without the path of the module, all packages would count as foreign and
	// nothing would be checked.
	if module == "" {
		return nil, errors.New("go list names no package of the main module; is this its folder?")
	}
	// Packages of the module get a relative name, as patterns have it.
	short := func(importPath string) string {
		if importPath == module {
			return "."
		}
		if below, ok := strings.CutPrefix(importPath, module+"/"); ok {
			return "./" + below
		}
		return importPath
	}
	for _, p := range packages {
		name := short(p.ImportPath)
		imports := p.Imports
		if p.Module != nil && p.Module.Main {
			g.ours = append(g.ours, name)
			if p.Error != nil {
				g.broken = append(g.broken, violation(name, "cannot be read: %s", strings.TrimSpace(p.Error.Err)))
			}
			// Only packages of this module are parsed: the files of others are
			// not checked.
			more, err := ignoredImports(p)
			if err != nil {
				return nil, err
			}
			imports = slices.Concat(imports, more)
		}
		for _, i := range imports {
			g.imports[name] = append(g.imports[name], short(i))
		}
		slices.Sort(g.imports[name])
		// An ignored file repeats most imports of its package.
		g.imports[name] = slices.Compact(g.imports[name])
		g.standard[name] = p.Standard
	}
	slices.Sort(g.ours)
	return g, nil
}

// ignoredImports returns the imports of files that build constraints exclude on
// this platform, because the rules apply on every platform. Files with a
// different package name are programs that are run by hand, such as generators,
// and are skipped.
func ignoredImports(p listed) ([]string, error) {
	var imports []string
	for _, name := range p.IgnoredGoFiles {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		// A generator with the constraint "ignore" is package main in a folder
		// of another package.
		if file.Name.Name != p.Name {
			continue
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			imports = append(imports, imported)
		}
	}
	return imports, nil
}
