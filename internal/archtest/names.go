package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"unicode"
)

// goneWords reports declared names and files whose words docs/glossary.md has
// replaced. Only declarations count: a name that another module chose may be
// used.
func (c *sourceCheck) goneWords(f goFile) {
	base := strings.TrimSuffix(path.Base(f.name), ".go")
	if word, instead := c.gone(base); word != "" {
		c.report(f.name, "the file's name has the word %q; use %s", word, instead)
	}
	declaredNames(f.tree, func(id *ast.Ident) {
		if word, instead := c.gone(id.Name); word != "" {
			c.reportLine(f.name, f.line(id.Pos()), "%s has the word %q; use %s", id.Name, word, instead)
		}
	})
}

// gone returns the first replaced word of a name and its replacement.
func (c *sourceCheck) gone(name string) (word, instead string) {
	for _, word := range nameWords(name) {
		if instead := c.rules.Gone[word]; instead != "" {
			return word, instead
		}
	}
	return "", ""
}

// nameWords splits a name at capitals and underscores into lower-case words.
func nameWords(name string) []string {
	letters := []rune(name)
	return strings.FieldsFunc(strings.Map(unicode.ToLower, spaced(letters)), func(r rune) bool { return r == ' ' || r == '_' })
}

// spaced puts a space before each capital that begins a word: the last one of
// a run such as in HTTPStatus, or one that follows a small letter.
func spaced(letters []rune) string {
	var out strings.Builder
	for i, r := range letters {
		afterSmall := i > 0 && !unicode.IsUpper(letters[i-1])
		beforeSmall := i+1 < len(letters) && unicode.IsLower(letters[i+1])
		if unicode.IsUpper(r) && (afterSmall || beforeSmall) {
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// declaredNames visits the name of each function, type, field, parameter,
// constant and variable that a file declares.
func declaredNames(tree *ast.File, visit func(*ast.Ident)) {
	all := func(names []*ast.Ident) {
		for _, id := range names {
			visit(id)
		}
	}
	targets := func(tok token.Token, exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok && tok == token.DEFINE {
				visit(id)
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			visit(n.Name)
		case *ast.TypeSpec:
			visit(n.Name)
		case *ast.ValueSpec:
			all(n.Names)
		case *ast.Field:
			all(n.Names)
		case *ast.AssignStmt:
			targets(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			targets(n.Tok, n.Key, n.Value)
		}
		return true
	})
}
