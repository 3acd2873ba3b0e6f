package action_test

import (
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/action"
	"slipway.dev/slipway/internal/gitops/customization"
)

// How many cases Argo CD's module has. A new version changes them.
const (
	upstreamDiscoveries = 81
	upstreamActions     = 104
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cases is a file of Argo CD's module.
type cases struct {
	DiscoveryTests []struct {
		InputPath string `json:"inputPath"`
		Result    []struct {
			Name     string `json:"name"`
			Disabled bool   `json:"disabled"`
		} `json:"result"`
	} `json:"discoveryTests"`
	ActionTests []struct {
		Action               string            `json:"action"`
		InputPath            string            `json:"inputPath"`
		ExpectedOutputPath   string            `json:"expectedOutputPath"`
		ExpectedErrorMessage string            `json:"expectedErrorMessage"`
		Parameters           map[string]string `json:"parameters"`
	} `json:"actionTests"`
}

// TestUpstreamCases runs the cases of Argo CD's module.
func TestUpstreamCases(t *testing.T) {
	lists, err := fs.Glob(resource_customizations.Embedded, "*/*/actions/action_test.yaml")
	if err != nil || len(lists) == 0 {
		t.Fatal(lists, err)
	}
	actions := &action.Set{Settings: &customization.Settings{}}
	discovered, planned := 0, 0
	for _, list := range lists {
		var all cases
		readUpstream(t, list, &all)
		for _, one := range all.DiscoveryTests {
			discovered++
			name := path.Join(path.Dir(list), one.InputPath)
			got, err := actions.Discover(t.Context(), object(t, name), noon)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, found := range got {
				if !slices.ContainsFunc(one.Result, func(want struct {
					Name     string `json:"name"`
					Disabled bool   `json:"disabled"`
				}) bool {
					return want.Name == found.Name && want.Disabled == found.Disabled
				}) {
					t.Errorf("%s has the action %v", name, found)
				}
			}
		}
		for _, one := range all.ActionTests {
			planned++
			input := path.Join(path.Dir(list), one.InputPath)
			changes, err := actions.Plan(t.Context(), object(t, input), one.Action, one.Parameters, noon)
			if one.ExpectedErrorMessage != "" {
				if err == nil || !strings.Contains(one.ExpectedErrorMessage, err.Error()) && !strings.Contains(err.Error(), message(one.ExpectedErrorMessage)) {
					t.Errorf("%s of %s: %v, want %s", one.Action, input, err, one.ExpectedErrorMessage)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s of %s: %v", one.Action, input, err)
				continue
			}
			wanted := expected(t, path.Join(path.Dir(list), one.ExpectedOutputPath))
			if len(changes) != len(wanted) {
				t.Errorf("%s of %s has %d changes, want %d", one.Action, input, len(changes), len(wanted))
			}
			for _, change := range changes {
				if !slices.ContainsFunc(wanted, func(want map[string]any) bool { return same(change, want) }) {
					t.Errorf("%s of %s gives\n%v\nwant one of\n%v", one.Action, input, change.Object.Object, wanted)
				}
			}
		}
	}
	if discovered != upstreamDiscoveries || planned != upstreamActions {
		t.Errorf("%d discoveries and %d actions were run", discovered, planned)
	}
}

// message is the end of an error of Argo CD, without the position in a script.
func message(text string) string { return text[strings.LastIndex(text, ": ")+1:] }

// expected reads objects: one, or a list of changes.
func expected(t *testing.T, name string) []map[string]any {
	t.Helper()
	var content any
	readUpstream(t, name, &content)
	switch content := content.(type) {
	case map[string]any:
		return []map[string]any{content}
	case []any:
		var all []map[string]any
		for _, element := range content {
			fields, _ := element.(map[string]any)
			one, _ := fields["unstructuredObj"].(map[string]any)
			all = append(all, one)
		}
		return all
	}
	t.Fatalf("%s has %T", name, content)
	return nil
}

// timestamp is what differs from run to run.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?`)

// same reports whether a change is as expected, but for times and for names that
// are made of them. As in Argo CD's own test, the metadata may have more than is
// expected, and the status of a Deployment does not count.
func same(change action.Change, want map[string]any) bool {
	changed := change.Object.DeepCopy()
	if change.Create {
		changed.SetName((&unstructured.Unstructured{Object: want}).GetName())
	}
	got, expected := plain(changed.Object).(map[string]any), plain(want).(map[string]any)
	if changed.GetKind() == "Deployment" {
		for _, object := range []map[string]any{got, expected} {
			delete(object, "status")
			delete(object["metadata"].(map[string]any), "generation")
		}
	}
	if !includes(got["metadata"], expected["metadata"]) {
		return false
	}
	delete(got, "metadata")
	delete(expected, "metadata")
	return reflect.DeepEqual(got, expected)
}

// includes reports whether a value has all fields of another.
func includes(got, want any) bool {
	fields, isObject := want.(map[string]any)
	found, _ := got.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(got, want)
	}
	for name, value := range fields {
		if !includes(found[name], value) {
			return false
		}
	}
	return true
}

// plain is a value without times and without what is empty.
func plain(value any) any {
	switch value := value.(type) {
	case string:
		return timestamp.ReplaceAllString(value, "TIME")
	case int64:
		return float64(value)
	case []any:
		list := []any{}
		for _, element := range value {
			list = append(list, plain(element))
		}
		return list
	case map[string]any:
		fields := map[string]any{}
		for name, field := range value {
			if field != nil {
				fields[name] = plain(field)
			}
		}
		return fields
	}
	return value
}

// object reads an object.
func object(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	read := &unstructured.Unstructured{}
	readUpstream(t, name, &read.Object)
	return read
}

// readUpstream reads a file of Argo CD's module.
func readUpstream(t *testing.T, name string, into any) {
	t.Helper()
	content, err := fs.ReadFile(resource_customizations.Embedded, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(name, err)
	}
}
