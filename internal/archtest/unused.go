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
			"internal/edge/edgetest", "internal/edge/pkitest", "internal/gitops/argotest", "internal/gitops/gittest",
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

// CheckUnused reports exported functions, methods and types that no code but
// tests uses: a feature that is not wired up, or code to delete. It compares
// names and not types, which takes a second instead of a minute: a method
// counts as used when any selector or interface has its name.
func CheckUnused(rules UnusedRules, source SourceRules, dir string) ([]finding.Finding, error) {
	u := &usage{rules: rules, names: map[string]bool{}, methods: map[string]bool{}}
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
	names    map[string]bool // functions and types that are used, as folder.Name
	methods  map[string]bool // names in selectors and interfaces
}

// declaration is an exported function, method or type.
type declaration struct {
	file   string
	line   int
	name   string // folder.Name, or folder.Type.Name for a method
	method string // the last part of it, for a method
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
				f.declare(d.Name, funcName(d), d.Recv != nil)
			}
			f.function(d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && checked && s.Name.IsExported() {
					f.declare(s.Name, s.Name.Name, false)
				}
				f.uses(spec)
			}
		}
	}
}

func (f *fileUsage) declare(id *ast.Ident, name string, isMethod bool) {
	d := declaration{file: f.file.name, line: f.file.line(id.Pos()), name: f.folder + "." + name}
	if isMethod {
		d.method = id.Name
	}
	f.declared = append(f.declared, d)
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
			if _, isName := n.Key.(*ast.Ident); !isName {
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
		case d.method == "" && u.names[d.name], d.method != "" && u.methods[d.method]:
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
