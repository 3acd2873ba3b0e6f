package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// model is the form of a routes file, from the source of package route.
type model struct {
	// text is the package comment, which defines the order of rules.
	text    string
	structs map[string]*structure
	choices map[string]*choice
	// others are named types that are neither structs nor choices, such as
	// Duration. They have no section; the page describes them as scalars.
	others map[string]bool
}

// structure is a struct type with its fields.
type structure struct {
	name   string
	text   string
	fields []member
}

// member is one field.
type member struct {
	name     string // in Go
	key      string // in the file
	required bool
	text     string
	kind     kind
}

// kind is the type of a field: a name, possibly in a list. Pointers are
// dropped, as they only make a field optional.
type kind struct {
	list bool
	name string // of a type of the package, or such as string and netip.Prefix
}

// choice is a string type with a fixed set of values.
type choice struct {
	name   string
	text   string
	values []value
}

// value is one constant of a choice with its comment.
type value struct{ literal, text string }

// readModel parses the source of package route without its tests.
func readModel(dir string) (*model, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no source in %s", dir)
	}
	// go/doc assigns constants to their types.
	pkg, err := doc.NewFromFiles(set, files, "route")
	if err != nil {
		return nil, err
	}
	m := &model{text: pkg.Doc, structs: map[string]*structure{}, choices: map[string]*choice{}, others: map[string]bool{}}
	for _, t := range pkg.Types {
		if err := m.take(t); err != nil {
			return nil, err
		}
	}
	// Only now are all types in the model.
	m.resolveAliases()
	return m, nil
}

// take adds one type to the model.
func (m *model) take(t *doc.Type) error {
	spec := t.Decl.Specs[0].(*ast.TypeSpec)
	switch body := spec.Type.(type) {
	case *ast.StructType:
		s := &structure{name: t.Name, text: t.Doc}
		for _, field := range body.Fields.List {
			found, err := members(t.Name, field)
			if err != nil {
				return err
			}
			s.fields = append(s.fields, found...)
		}
		m.structs[t.Name] = s
	case *ast.Ident:
		if values := constants(t); len(values) > 0 {
			m.choices[t.Name] = &choice{name: t.Name, text: t.Doc, values: values}
		} else if body.IsExported() {
			// A type with the fields of another one, such as TCPRouteID.
			m.structs[t.Name] = &structure{name: t.Name, text: t.Doc, fields: []member{{kind: kind{name: body.Name}}}}
		} else {
			m.others[t.Name] = true
		}
	default:
		m.others[t.Name] = true
	}
	return nil
}

// resolveAliases replaces the placeholder field of types that are defined by
// another struct with the fields of that struct. It runs after all types are
// read, since the other type may come later.
func (m *model) resolveAliases() {
	for _, s := range m.structs {
		// A field of a real struct always has a key; the placeholder has none.
		if len(s.fields) == 1 && s.fields[0].key == "" && m.structs[s.fields[0].kind.name] != nil {
			s.fields = m.structs[s.fields[0].kind.name].fields
		}
	}
}

// members returns the field of one declaration. A field without a tag is not
// part of the file and is skipped. A tag without a name, or shared by two
// fields, is an error.
func members(owner string, field *ast.Field) ([]member, error) {
	if field.Tag == nil {
		return nil, nil
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return nil, err
	}
	key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	// Embedded fields have no name, and the page has no form for them.
	if key == "" || len(field.Names) != 1 {
		return nil, fmt.Errorf("%s: a field with a tag has no name of its own in the file", owner)
	}
	return []member{{
		name: field.Names[0].Name, key: key, required: options == "",
		text: field.Doc.Text() + field.Comment.Text(), kind: kindOf(field.Type),
	}}, nil
}

// kindOf returns the kind of a type expression. A form that is not expected
// becomes "value", which a reviewer of the page sees.
func kindOf(t ast.Expr) kind {
	switch t := t.(type) {
	case *ast.ArrayType:
		return kind{list: true, name: kindOf(t.Elt).name}
	case *ast.StarExpr:
		return kindOf(t.X)
	case *ast.SelectorExpr:
		return kind{name: kindOf(t.X).name + "." + t.Sel.Name}
	case *ast.Ident:
		return kind{name: t.Name}
	}
	return kind{name: "value"}
}

// constants returns the string constants of a type, in source order. Constants
// that are not string literals are skipped: they are not values of a choice.
func constants(t *doc.Type) []value {
	var values []value
	for _, group := range t.Consts {
		for _, spec := range group.Decl.Specs {
			named := spec.(*ast.ValueSpec)
			for _, expr := range named.Values {
				literal, ok := expr.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				// The parser accepts only valid literals, so this does not
				// fail.
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					continue
				}
				values = append(values, value{literal: text, text: valueText(named)})
			}
		}
	}
	return values
}

// valueText returns the comment of a constant without its Go name, which a
// reader of the page has no use for.
func valueText(spec *ast.ValueSpec) string {
	text := strings.TrimPrefix(spec.Doc.Text(), spec.Names[0].Name)
	return strings.TrimSpace(strings.TrimPrefix(text, ":"))
}
