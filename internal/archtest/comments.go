package archtest

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// docComments finds exported declarations that say nothing about themselves.
// A method counts if its type is exported.
func (c *sourceCheck) docComments(f goFile) {
	for _, decl := range f.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			exported := d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d)))
			if exported && !says(d.Doc) {
				c.undocumented(f, d, funcName(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.specComment(f, d, spec)
			}
		}
	}
}

// specComment accepts a comment above or beside the name. One comment for a
// group of constants or variables is enough; each type has its own.
func (c *sourceCheck) specComment(f goFile, d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		alone := !d.Lparen.IsValid() && says(d.Doc)
		if s.Name.IsExported() && !alone && !says(s.Doc) && !says(s.Comment) {
			c.undocumented(f, s, s.Name.Name)
		}
	case *ast.ValueSpec:
		if says(d.Doc) || says(s.Doc) || says(s.Comment) {
			return
		}
		for _, name := range s.Names {
			if name.IsExported() {
				c.undocumented(f, name, name.Name)
			}
		}
	}
}

// says reports whether a comment has words; a directive such as go:embed has
// none.
func says(comment *ast.CommentGroup) bool { return strings.TrimSpace(comment.Text()) != "" }

func (c *sourceCheck) undocumented(f goFile, n ast.Node, name string) {
	c.reportLine(f.name, f.line(n.Pos()), "%s is exported and has no doc comment; say what a caller can rely on", name)
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func importsPath(file *ast.File, importPath string) bool { return importName(file, importPath) != "" }

// importName is the name of an imported package in a file, or empty.
func importName(file *ast.File, importPath string) string {
	for _, spec := range file.Imports {
		if unquoted, err := strconv.Unquote(spec.Path.Value); err != nil || unquoted != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}
