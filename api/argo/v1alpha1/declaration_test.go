package v1alpha1

import (
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/api/declare"
)

// eachStruct visits every struct that a kind is made of.
func eachStruct(visit func(reflect.Type)) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			if seen[of] || !strings.HasSuffix(of.PkgPath(), "api/argo/v1alpha1") {
				return
			}
			seen[of] = true
			visit(of)
			for i := range of.NumField() {
				walk(of.Field(i).Type)
			}
		}
	}
	for _, kind := range Kinds() {
		walk(kind.Spec)
		walk(kind.Status)
		if kind.Operation != nil {
			walk(kind.Operation)
		}
	}
}

// TestDeclarations: every field has a name and a description, and is left out
// when it is empty, unless it is always written.
func TestDeclarations(t *testing.T) {
	count := 0
	eachStruct(func(of reflect.Type) {
		count++
		for _, declared := range declare.Fields(of) {
			name := of.Name() + "." + declared.Name
			if !strings.HasSuffix(declared.Description, ".") {
				t.Errorf("%s has no description that is a sentence", name)
			}
			if isUnsupported := declared.Type == reflect.TypeFor[Unsupported](); isUnsupported != (declared.Refused != "") {
				t.Errorf("%s: what is not supported says why, and has the type Unsupported", name)
			}
			if tag := declared.Tag.Get("json"); declared.Required && strings.Contains(tag, "omit") {
				t.Errorf("%s is required and left out when it is empty", name)
			}
			if strings.Contains(declared.Tag.Get("json"), "omitempty") {
				t.Errorf("%s: omitempty drops lists that are written and empty", name)
			}
		}
	})
	if count < 45 {
		t.Errorf("only %d structs were looked at", count)
	}
}

// TestOptionsAreDeclared: every sync option has a name of its own and at least two values.
func TestOptionsAreDeclared(t *testing.T) {
	names := map[string]bool{}
	for _, option := range optionFields(&SyncOptions{}) {
		if option.name == "" || names[option.name] || len(option.values) < 2 {
			t.Errorf("%+v", option)
		}
		names[option.name] = true
	}
	if len(names) != 14 {
		t.Errorf("%d options", len(names))
	}
}
