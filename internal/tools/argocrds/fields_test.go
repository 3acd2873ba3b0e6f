package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// schemaOf is the schema of the only version of a definition.
func schemaOf(t *testing.T, file string) map[string]any {
	t.Helper()
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile(file))(t), &definition))
	if len(definition.Spec.Versions) != 1 {
		t.Fatalf("%s has %d versions", file, len(definition.Spec.Versions))
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// missingFields are the fields of Argo CD's schema that ours does not have. Below a
// field that ours does not describe none is missing: Decode has its declarations.
func missingFields(theirs, ours map[string]any, place string) (missing []string, looked int) {
	for {
		items, isList := theirs["items"].(map[string]any)
		ourItems, isOurList := ours["items"].(map[string]any)
		if !isList || !isOurList {
			break
		}
		theirs, ours = items, ourItems
	}
	properties, _ := theirs["properties"].(map[string]any)
	known, described := ours["properties"].(map[string]any)
	if !described {
		return nil, 0
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		own, has := known[name].(map[string]any)
		if !has {
			missing = append(missing, place+"."+name)
			continue
		}
		below, n := missingFields(properties[name].(map[string]any), own, place+"."+name)
		missing, looked = append(missing, below...), looked+n+1
	}
	return missing, looked
}

// TestFieldsOfArgoCD: every field of Argo CD's definitions is declared here: used, without
// effect with a reason, or refused by name.
func TestFieldsOfArgoCD(t *testing.T) {
	upstream := filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), "manifests", "crds")
	total := 0
	for _, kind := range v1alpha1.Kinds() {
		theirs := schemaOf(t, filepath.Join(upstream, map[string]string{
			v1alpha1.KindApplication: "application-crd.yaml", v1alpha1.KindAppProject: "appproject-crd.yaml", v1alpha1.KindApplicationSet: "applicationset-crd.yaml",
		}[kind.Name]))
		ours := schemaOf(t, filepath.Join(root, folder, kind.File()))
		for _, part := range []string{"spec", "operation"} {
			their, hasPart := theirs["properties"].(map[string]any)[part].(map[string]any)
			if !hasPart {
				continue
			}
			missing, looked := missingFields(their, ours["properties"].(map[string]any)[part].(map[string]any), kind.Name+"."+part)
			total += looked
			for _, field := range missing {
				t.Errorf("%s of Argo CD is not declared", field)
			}
		}
	}
	if total < 500 {
		t.Errorf("only %d fields were looked at", total)
	}
}
