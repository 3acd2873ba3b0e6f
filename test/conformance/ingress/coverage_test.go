package ingress

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

// TestEverythingIsShown fails when an option of the provider or an annotation of
// the reference is in no case.
func TestEverythingIsShown(t *testing.T) {
	shown := strings.ToLower(allCases(t))
	for _, option := range optionNames(reflect.TypeFor[config.KubernetesIngress](), "") {
		if !strings.Contains(shown, strings.ToLower("kubernetesIngress."+option+"=")) {
			t.Errorf("the option %s is in no case", option)
		}
	}
	names := annotationNames(t)
	if len(names) < 70 {
		t.Errorf("the reference has %d annotations only: is it read as it is written?", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(regexp.QuoteMeta(name) + `\b[^-.]`).MatchString(shown) {
			t.Errorf("the annotation %s is in no case", name)
		}
	}
}

// optionNames are the names of the options in a struct, as flags have them.
func optionNames(of reflect.Type, prefix string) []string {
	var names []string
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if field.Tag.Get("description") == "" {
			names = append(names, optionNames(field.Type, prefix+name+".")...)
			continue
		}
		names = append(names, prefix+name)
	}
	return names
}

// annotationNames are those of the generated reference.
func annotationNames(t *testing.T) []string {
	t.Helper()
	reference := readFile(t, "../../../docs/reference/annotations.md")
	var names []string
	for _, match := range regexp.MustCompile("(?m)^(?:\\| `|[0-9]+\\. \\[`)(slipway\\.dev/[a-z-]+|(?:router|service)\\.[a-z.]+)`").FindAllStringSubmatch(reference, -1) {
		name := strings.Replace(match[1], "domains.n.", "domains.0.", 1)
		if !strings.HasPrefix(name, "slipway.dev/") {
			name = "traefik.ingress.kubernetes.io/" + name
		}
		names = append(names, name)
	}
	return names
}

// allCases is the text of all cases, those that are written in Go too.
func allCases(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == "coverage_test.go" {
			return err
		}
		text.WriteString(readFile(t, path))
		return nil
	})
	must.Do(t, err)
	return text.String()
}
