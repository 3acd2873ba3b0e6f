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
)

// graph is who imports whom, for a module and all that it depends on. Packages
// of the module are written ./internal/edge, all others by their import path:
// the standard library has folders called internal, too.
type graph struct {
	ours     []string            // packages of the module, sorted
	imports  map[string][]string // imports of non-test files, sorted
	standard map[string]bool     // packages of the standard library
	broken   []Finding           // packages that the go command cannot read
}

// isStandard also knows packages that only other platforms have, by their
// spelling: the first part of a foreign path is a domain.
func (g *graph) isStandard(pkg string) bool {
	standard, known := g.standard[pkg]
	if known {
		return standard
	}
	domain, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(domain, ".")
}

// listed is the part of the output of go list that matters here.
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

// load asks the go command, which knows build constraints and modules.
func load(ctx context.Context, dir string) (*graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-deps",
		"-json=Dir,ImportPath,Name,Standard,Imports,IgnoredGoFiles,Module,Error", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", dir, err, stderr.String())
	}
	var packages []listed
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

func newGraph(packages []listed) (*graph, error) {
	g := &graph{imports: map[string][]string{}, standard: map[string]bool{}}
	module := ""
	for _, p := range packages {
		if p.Module != nil && p.Module.Main {
			module = p.Module.Path
		}
	}
	if module == "" {
		return nil, errors.New("go list names no package of the main module; is this its folder?")
	}
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
				g.broken = append(g.broken, Finding{Where: name, Message: "cannot be read: " + strings.TrimSpace(p.Error.Err)})
			}
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
		g.imports[name] = slices.Compact(g.imports[name])
		g.standard[name] = p.Standard
	}
	slices.Sort(g.ours)
	return g, nil
}

// ignoredImports reads the files that are left out on this platform: an import
// counts on every platform. Files of another package name are programs to be
// run by hand, such as generators.
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
