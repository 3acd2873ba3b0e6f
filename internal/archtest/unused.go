package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// UnusedRules are the rules for exported names that the program does not use.
type UnusedRules struct {
	Module string // path of the module that is checked
	Below  string // folder whose exported names are checked
	// Fixtures are folders that tests alone use. Their names are not checked,
	// and what they use counts as used by a test.
	Fixtures []string
	// Foreign are methods that packages outside of the repository call through
	// an interface of theirs.
	Foreign []string
	// Exceptions maps a name, as folder.Name or folder.Type.Name, to the
	// decision that keeps it. One that is no longer needed is a finding.
	Exceptions map[string]string
}

// HouseUnused returns the rules of this repository.
func HouseUnused() UnusedRules {
	return UnusedRules{
		Module: "slipway.dev/slipway", Below: "internal",
		Fixtures: []string{
			"test", "internal/archives", "internal/archtest", "internal/cli/clitest", "internal/edge/bridge/bridgetest",
			"internal/edge/edgetest", "internal/edge/pkitest", "internal/gitops/argotest", "internal/gitops/gittest", "internal/gitops/plugintest",
			"internal/gitprovider/providertest", "internal/kube/kubetest", "internal/must", "internal/observe/otlp/otlptest",
			"internal/platform/identity/oidctest", "internal/platform/identity/passkeytest", "internal/platform/store/pgtest",
			"internal/programs",
		},
		Foreign: []string{
			"GoString", "LogValue", // fmt and slog
			"Touch", // the order of a work queue
		},
		Exceptions: map[string]string{},
	}
}

// CheckUnused reports exported functions, methods, types, constants and
// variables that no code but tests uses: a feature that is not wired up, or code to delete. It compares
// names and not types, which takes a second instead of a minute: a method
// counts as used when any selector or interface has its name.
func CheckUnused(rules UnusedRules, source SourceRules, dir string) ([]finding.Finding, error) {
	u := &usage{rules: rules, names: map[string]bool{}, keys: map[string]bool{}, methods: map[string]bool{}}
	for _, name := range rules.Foreign {
		u.methods[name] = true
	}
	err := eachGoFile(source, dir, func(name string) error {
		if strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(rules.Fixtures, func(folder string) bool { return isBelow(name, folder) }) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution) // a comment marks generated files
		if err != nil {
			return err
		}
		u.add(goFile{name: name, set: set, tree: tree})
		return nil
	})
	if err != nil {
		return nil, err
	}
	findings := u.findings()
	sortFindings(findings)
	return findings, nil
}

// isBelow reports whether a file is in a folder or below it.
func isBelow(name, folder string) bool { return strings.HasPrefix(name, folder+"/") }

// usage has what code that is no test declares and what it uses.
type usage struct {
	rules    UnusedRules
	declared []declaration
	names    map[string]bool // all but methods that are used, as folder.Name
	keys     map[string]bool // names before the colons of literals, as folder.Name
	methods  map[string]bool // names in selectors and interfaces
}

// declaration is an exported name.
type declaration struct {
	file   string
	line   int
	name   string // folder.Name, or folder.Type.Name for a method
	method string // the last part of it, for a method
	value  bool   // it is a constant or a variable
}

// fileUsage reads one file.
type fileUsage struct {
	*usage
	file    goFile
	folder  string
	imports map[string]string // folders by the name of the import
	ignored string            // the function whose body is read: recursion is no use
}

// add reads the declarations and uses of a file. A generated file is not
// checked, because its author cannot remove a function.
func (u *usage) add(file goFile) {
	f := &fileUsage{usage: u, file: file, folder: path.Dir(file.name), imports: map[string]string{}}
	for _, spec := range file.tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if folder, ours := strings.CutPrefix(imported, u.rules.Module+"/"); err == nil && ours {
			f.imports[importName(file.tree, imported)] = folder
		}
	}
	checked := isBelow(file.name, u.rules.Below) && !ast.IsGenerated(file.tree)
	for _, decl := range file.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if checked && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				kind := declaration{}
				if d.Recv != nil {
					kind.method = d.Name.Name
				}
				f.declare(kind, d.Name, funcName(d))
			}
			f.function(d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				f.spec(spec, checked && !isListed(spec, d.Tok))
			}
		}
	}
}

// spec reads a type, or constants and variables. The names of these are no
// uses.
func (f *fileUsage) spec(spec ast.Spec, checked bool) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if checked && s.Name.IsExported() {
			f.declare(declaration{}, s.Name, s.Name.Name)
		}
		f.uses(s)
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if checked && id.IsExported() {
				f.declare(declaration{value: true}, id, id.Name)
			}
		}
		if s.Type != nil {
			f.uses(s.Type)
		}
		for _, value := range s.Values {
			f.uses(value)
		}
	}
}

// isListed reports whether a constant is one of a list of values: it has a type,
// or the expression of the one before. Such a list is complete, even if the
// program has no word for one of the values.
func isListed(spec ast.Spec, kind token.Token) bool {
	s, ok := spec.(*ast.ValueSpec)
	return ok && kind == token.CONST && (s.Type != nil || len(s.Values) == 0)
}

// declare adds a declaration of its kind.
func (f *fileUsage) declare(kind declaration, id *ast.Ident, name string) {
	kind.file, kind.line, kind.name = f.file.name, f.file.line(id.Pos()), f.folder+"."+name
	f.declared = append(f.declared, kind)
}

// function reads a function without its own name and without its receiver,
// which are no uses.
func (f *fileUsage) function(d *ast.FuncDecl) {
	if d.Recv == nil {
		f.ignored = d.Name.Name
	}
	f.uses(d.Type)
	if d.Body != nil {
		f.uses(d.Body)
	}
	f.ignored = ""
}

// uses records the names that a node refers to. Names of fields and variables
// that it declares are not among them.
func (f *fileUsage) uses(node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			f.selector(n)
			return false
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				for _, id := range method.Names {
					f.methods[id.Name] = true
				}
			}
		case *ast.TypeSpec:
			if n.TypeParams != nil {
				f.uses(n.TypeParams)
			}
			f.uses(n.Type)
			return false
		case *ast.Field:
			f.uses(n.Type)
			return false
		case *ast.KeyValueExpr:
			// A name is a field, or a constant that is the key of a map.
			if key, isName := n.Key.(*ast.Ident); isName {
				f.keys[f.folder+"."+key.Name] = true
			} else {
				f.uses(n.Key)
			}
			f.uses(n.Value)
			return false
		case *ast.Ident:
			if n.Name != f.ignored {
				f.names[f.folder+"."+n.Name] = true
			}
		}
		return true
	})
}

// selector records the use of a name of another package, or of a method.
func (f *fileUsage) selector(n *ast.SelectorExpr) {
	if x, ok := n.X.(*ast.Ident); ok && f.imports[x.Name] != "" {
		f.names[f.imports[x.Name]+"."+n.Sel.Name] = true
		return
	}
	f.methods[n.Sel.Name] = true
	f.uses(n.X)
}

// findings reports the declarations without a use, and the exceptions without
// such a declaration.
func (u *usage) findings() (findings []finding.Finding) {
	needed := map[string]bool{}
	for _, d := range u.declared {
		switch {
		case d.method == "" && u.names[d.name], d.value && u.keys[d.name], d.method != "" && u.methods[d.method]:
		case u.rules.Exceptions[d.name] != "":
			needed[d.name] = true
		default:
			findings = append(findings, violation(d.file+":"+strconv.Itoa(d.line), "%s is exported and only tests use it; remove it, or wire it up", strings.TrimPrefix(d.name, path.Dir(d.file)+".")))
		}
	}
	for name := range u.rules.Exceptions {
		if !needed[name] {
			findings = append(findings, violation(name, "the exception in HouseUnused is not needed any more; remove it"))
		}
	}
	return findings
}
