package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filetable"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

const (
	sourceDir  = "../../route"
	exampleDir = "examples"
)

// TestReferenceIsCurrent: the page in the repository is what is generated.
func TestReferenceIsCurrent(t *testing.T) {
	generated := must.Get(reference(sourceDir, exampleDir))(t)
	committed, err := os.ReadFile("../../../docs/reference/routes.md")
	if err != nil || string(committed) != generated {
		t.Errorf("docs/reference/routes.md is out of date: run make generate (%v)", err)
	}
}

// TestReferenceIsComplete holds the page to the types themselves: what the
// reader of a routes file accepts is what the page lists.
func TestReferenceIsComplete(t *testing.T) {
	page := must.Get(reference(sourceDir, exampleDir))(t)
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(v reflect.Type) {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct || seen[v] || v.PkgPath() != reflect.TypeFor[route.Table]().PkgPath() || v.Name() == "Secret" {
			return
		}
		seen[v] = true
		section := sectionOf(page, v.Name())
		if section == "" {
			t.Errorf("%s is not on the page", v.Name())
		}
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(section, "| `"+key+"` |") {
				t.Errorf("%s has no %s on the page", v.Name(), key)
			}
			visit(v.Field(i).Type)
		}
	}
	visit(reflect.TypeFor[route.Table]())
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// sectionOf is the text below a heading.
func sectionOf(page, heading string) string {
	_, rest, found := strings.Cut(page, "# "+heading+"\n")
	if !found {
		return ""
	}
	section, _, _ := strings.Cut(rest, "\n#")
	return section
}

// TestExamples: what the page shows can be served.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob(exampleDir + "/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			_, table, err := filetable.Open(path)
			must.Do(t, err)
			for _, problem := range table.Validate() {
				t.Error(problem)
			}
			if len(table.Rules) != 1 || len(table.Rules[0].Policies) != 1 {
				t.Fatal("it is not one rule with one policy")
			}
			action := reflect.TypeOf(table.Rules[0].Policies[0].Action()).Elem().Name()
			if !strings.EqualFold(action, name) {
				t.Errorf("it is an example of %s", action)
			}
		})
	}
}

// TestMissingExample: a new policy cannot be forgotten.
func TestMissingExample(t *testing.T) {
	_, err := reference(sourceDir, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "has no example") {
		t.Errorf("got %v", err)
	}
}

// TestGenerate: the page is generated from the root of the repository, as make
// does, and a folder without source is an error.
func TestGenerate(t *testing.T) {
	files, err := generate("../../..")
	if text := files["docs/reference/routes.md"]; err != nil || !strings.HasPrefix(string(text), "<!-- Written by") {
		t.Errorf("%.40s, %v", text, err)
	}
	if _, err := generate(t.TempDir()); err == nil {
		t.Error("a folder without source is no error")
	}
}
