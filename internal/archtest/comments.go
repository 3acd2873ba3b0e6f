package archtest

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// docComments reports exported declarations without a doc comment. A method
// counts only if its type is exported as well: otherwise godoc does not show
// it.
func (c *sourceCheck) docComments(f goFile) {
	for _, decl := range f.tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			exported := d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d)))
			if exported && !hasText(d.Doc) {
				c.undocumented(f, d, funcName(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.specComment(f, d, spec)
			}
		}
	}
}

// specComment checks one name of a declaration. A comment above or beside it
// counts. One comment is enough for a group of constants or variables; each
// type needs its own.
func (c *sourceCheck) specComment(f goFile, d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		// The comment above "type (" describes the group and not its first
		// type.
		alone := !d.Lparen.IsValid() && hasText(d.Doc)
		if s.Name.IsExported() && !alone && !hasText(s.Doc) && !hasText(s.Comment) {
			c.undocumented(f, s, s.Name.Name)
		}
	case *ast.ValueSpec:
		if hasText(d.Doc) || hasText(s.Doc) || hasText(s.Comment) {
			return
		}
		for _, name := range s.Names {
			if name.IsExported() {
				c.undocumented(f, name, name.Name)
			}
		}
	}
}

// hasText reports whether a comment has text. Text drops directives such as
// go:embed, and it accepts a nil group.
func hasText(comment *ast.CommentGroup) bool { return strings.TrimSpace(comment.Text()) != "" }

// undocumented reports a missing doc comment at the line of a declaration.
func (c *sourceCheck) undocumented(f goFile, n ast.Node, name string) {
	c.reportLine(f.name, f.line(n.Pos()), "%s is exported and has no doc comment; describe what a caller can rely on", name)
}

// receiver returns the name of a method's type, without pointer, parentheses
// and type parameters.
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

// importsPath reports whether a file imports a package.
func importsPath(file *ast.File, importPath string) bool { return importName(file, importPath) != "" }

// importName returns the name that a file uses for an imported package, or an
// empty string. Without an explicit name it is the last element of the path,
// which holds for the packages that the rules refer to.
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
