package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// maxTextSize is the size up to which a file is checked. A larger one is not
// written by hand, and reading it would only cost time.
const maxTextSize = 2 << 20

// CheckSource applies the rules to every file below dir, in all modules and for
// all platforms: it parses files itself and does not use the go command.
// Generated Go files are checked for words and names only. An error means that
// a file could not be read.
func CheckSource(rules SourceRules, dir string) ([]finding.Finding, error) {
	c := &sourceCheck{rules: rules, packages: map[string]*packageDoc{}, needed: map[LongFunc]bool{}}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(rules.SkipAnywhere, d.Name()) || slices.Contains(rules.SkipAtRoot, name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // in a linked worktree .git is a file
		}
		// Folders count by their name only; their files follow in the walk.
		if d.IsDir() {
			c.folder(name)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxTextSize {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		c.file(name, text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.finish()
	sortFindings(c.findings)
	return c.findings, nil
}

// eachGoFile calls visit for every Go file below dir that the rules do not skip,
// in lexical order, with its path from dir. The first error ends the walk.
func eachGoFile(rules SourceRules, dir string, visit func(name string) error) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(rules.SkipAnywhere, d.Name()) || slices.Contains(rules.SkipAtRoot, name)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return visit(name)
	})
}

// sourceCheck is the state of one walk over a repository.
type sourceCheck struct {
	rules    SourceRules
	findings []finding.Finding
	packages map[string]*packageDoc // by folder
	needed   map[LongFunc]bool      // exceptions that a function needs
}

// packageDoc records whether any file of a package has a package comment.
type packageDoc struct {
	name       string
	documented bool
}

// report adds a finding for a whole file or folder.
func (c *sourceCheck) report(where, format string, args ...any) {
	c.findings = append(c.findings, violation(where, format, args...))
}

// reportLine adds a finding for a line of a file.
func (c *sourceCheck) reportLine(file string, line int, format string, args ...any) {
	c.report(fmt.Sprintf("%s:%d", file, line), format, args...)
}

// folder checks the name of a folder.
func (c *sourceCheck) folder(name string) {
	if slices.Contains(c.rules.Names, path.Base(name)) {
		c.report(name, "no folder is called %s; name it after what it is for", path.Base(name))
	}
}

// file checks one file. Binary files are recognized by a zero byte and skipped.
func (c *sourceCheck) file(name string, text []byte) {
	if bytes.IndexByte(text, 0) >= 0 {
		return // not text
	}
	// go.sum contains base64 hashes, which match words at random.
	if path.Base(name) != "go.sum" {
		c.words(name, text)
	}
	if isPage(name) {
		c.page(name, text)
	}
	if path.Ext(name) == ".go" {
		c.goFile(name, text)
	}
}

// words reports the first occurrence of each forbidden pattern in a file.
func (c *sourceCheck) words(name string, text []byte) {
	// The pattern runs over the whole text and the line is counted only for a
	// match: almost every file has none.
	for _, word := range c.rules.Words {
		if at := word.Pattern.FindIndex(text); at != nil {
			line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
			c.reportLine(name, line, "contains %q: %s", text[at[0]:at[1]], word.Reason)
		}
	}
}

// goFile is one parsed Go file.
type goFile struct {
	name string // from the top of the repository
	test bool
	set  *token.FileSet
	tree *ast.File
}

// line returns the line of a position.
func (f goFile) line(pos token.Pos) int { return f.set.Position(pos).Line }

// goFile parses a Go file and applies the rules for Go code.
func (c *sourceCheck) goFile(name string, text []byte) {
	f := goFile{name: name, test: strings.HasSuffix(name, "_test.go"), set: token.NewFileSet()}
	tree, err := parser.ParseFile(f.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.report(name, "is not valid Go: %v", err)
		return
	}
	f.tree = tree
	c.goNames(f)
	c.packageComment(f)
	// The author of a generated file cannot split it or add comments.
	if ast.IsGenerated(tree) {
		return
	}
	if lines := bytes.Count(text, []byte("\n")); lines > c.rules.FileLines {
		c.report(name, "has %d lines, the most is %d; split it by concept", lines, c.rules.FileLines)
	}
	c.functions(f)
	c.structs(f)
	if f.test {
		c.sleeps(f)
	} else {
		c.goneWords(f)
		c.docComments(f)
		c.literals(f)
	}
}

// goNames checks the names of the package and of the file. The suffix _test is
// not part of either.
func (c *sourceCheck) goNames(f goFile) {
	if pkg := strings.TrimSuffix(f.tree.Name.Name, "_test"); slices.Contains(c.rules.Names, pkg) {
		c.report(f.name, "no package is called %s; name it after what it is for", pkg)
	}
	// Both endings are removed, so util_test.go is reported like util.go.
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.name), ".go"), "_test")
	if slices.Contains(c.rules.Names, base) {
		c.report(f.name, "no file is called %s; name it after its concept", path.Base(f.name))
	}
}

// packageComment records whether the file has a package comment. A package that
// consists of tests needs one as well, which explains what they test.
func (c *sourceCheck) packageComment(f goFile) {
	dir := path.Dir(f.name)
	// The name is that of the first file, which is enough for the message.
	if c.packages[dir] == nil {
		c.packages[dir] = &packageDoc{name: f.tree.Name.Name}
	}
	if hasText(f.tree.Doc) {
		c.packages[dir].documented = true
	}
}

// functions checks the sizes and parameters of functions, and reports init
// functions. A file that imports embed may have one.
func (c *sourceCheck) functions(f goFile) {
	for _, decl := range f.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			c.funcSize(f, funcName(d), d)
			c.params(f, funcName(d), d.Type)
			if d.Recv == nil && d.Name.Name == "init" && !importsPath(f.tree, "embed") {
				c.reportLine(f.name, f.line(d.Pos()), "no init functions; call it from where it is needed, so that a reader sees the order")
			}
		case *ast.GenDecl:
			// A function literal in a variable is a function as well. Nested
			// literals count with the outer one.
			ast.Inspect(d, func(n ast.Node) bool {
				literal, ok := n.(*ast.FuncLit)
				if ok {
					c.funcSize(f, "func literal", literal)
					c.params(f, "func literal", literal.Type)
				}
				return !ok
			})
		}
	}
}

// funcSize checks the number of lines of a function, and records exceptions
// that are still needed. An exception has an upper limit as well.
func (c *sourceCheck) funcSize(f goFile, name string, n ast.Node) {
	lines := f.line(n.End()-1) - f.line(n.Pos()) + 1
	if lines <= c.rules.FuncLines {
		return
	}
	// An exception applies to one function of one file. needed is set even if
	// the limit is exceeded, so that only one of the two findings appears.
	for _, e := range c.rules.LongFuncs {
		if e.File != f.name || e.Func != name {
			continue
		}
		c.needed[e] = true
		if lines > c.rules.FuncLinesLimit {
			c.reportLine(f.name, f.line(n.Pos()), "%s has %d lines; even with an exception the most is %d", name, lines, c.rules.FuncLinesLimit)
		}
		return
	}
	c.reportLine(f.name, f.line(n.Pos()), "%s has %d lines, the most is %d; split it, or add an exception with a reason to HouseRules", name, lines, c.rules.FuncLines)
}

// params checks the number of parameters, where "a, b int" counts as two.
func (c *sourceCheck) params(f goFile, name string, t *ast.FuncType) {
	if n := t.Params.NumFields(); n > c.rules.Params {
		c.reportLine(f.name, f.line(t.Pos()), "%s has %d parameters, the most is %d; give it a struct", name, n, c.rules.Params)
	}
}

// structs reports types with too many fields. An embedded struct counts as one
// field: splitting a type into named parts is the suggested fix.
func (c *sourceCheck) structs(f goFile) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if body, ok := spec.Type.(*ast.StructType); ok && body.Fields.NumFields() > c.rules.StructFields && !c.isUnion(f, spec.Name.Name, body) {
			c.reportLine(f.name, f.line(spec.Pos()), "%s has %d fields, the most is %d; split it into parts with a name", spec.Name.Name, body.Fields.NumFields(), c.rules.StructFields)
		}
		return true
	})
}

// isUnion reports whether a type is listed as a union, and is one.
func (c *sourceCheck) isUnion(f goFile, name string, body *ast.StructType) bool {
	if !slices.Contains(c.rules.Unions, Union{f.name, name}) {
		return false
	}
	for _, field := range body.Fields.List {
		_, pointer := field.Type.(*ast.StarExpr)
		if !pointer && (len(field.Names) != 1 || field.Names[0].Name != "ID") {
			return false
		}
	}
	return true
}

// funcName returns Name, or Type.Name for a method.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d) + "." + d.Name.Name
}

// sleeps reports time.Sleep in tests, under any name that the import has.
func (c *sourceCheck) sleeps(f goFile) {
	// Without type information the selector is matched by name, so a local
	// variable called time with a Sleep method would be a false finding.
	name := importName(f.tree, "time")
	if name == "" {
		return
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				c.reportLine(f.name, f.line(n.Pos()), "no time.Sleep in tests; wait for the condition, or use testing/synctest")
			}
		}
		return true
	})
}

// finish reports findings that are complete only after the last file: packages
// without a comment, and exceptions that no function needs.
func (c *sourceCheck) finish() {
	for dir, p := range c.packages {
		if !p.documented {
			c.report(dir, "package %s has no package comment; describe its purpose, its guarantees and its limits", p.name)
		}
	}
	for _, e := range c.rules.LongFuncs {
		if !c.needed[e] {
			c.report(e.File, "the exception for %s in HouseRules is not needed any more; remove it", e.Func)
		}
	}
}
