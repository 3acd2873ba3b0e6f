package demo_test

import (
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/devcluster/demo"
	"slipway.dev/slipway/devcluster/must"
)

func TestLookup(t *testing.T) {
	for _, tt := range []struct {
		ref, full, version, colour string
	}{
		{"slipway.dev/demo", "slipway.dev/demo:v1", "v1", "blue"},
		{"slipway.dev/demo:v1", "slipway.dev/demo:v1", "v1", "blue"},
		{"slipway.dev/demo:v2", "slipway.dev/demo:v2", "v2", "green"},
		{"slipway.dev/demo:v3", "slipway.dev/demo:v3", "v3", "orange"},
		{"slipway.dev/demo:v9", "slipway.dev/demo:v9", "v9", "blue"},
		{"slipway.dev/demo:v99", "slipway.dev/demo:v99", "v99", "orange"},
		{"slipway.dev/demo:v-bad", "slipway.dev/demo:v-bad", "v-bad", "black"},
		{"slipway.dev/demo:v-slow", "slipway.dev/demo:v-slow", "v-slow", "dimgray"},
	} {
		t.Run(tt.ref, func(t *testing.T) {
			got := must.Get(demo.Lookup(tt.ref))(t)
			want := demo.Image{
				Ref: tt.full, Version: tt.version, Colour: tt.colour,
				Args: []string{"demo-echo"},
				Env:  []string{"SLIPWAY_DEMO_VERSION=" + tt.version, "SLIPWAY_DEMO_COLOUR=" + tt.colour},
			}
			want.Env = append(want.Env, map[string][]string{"v-bad": {"SLIPWAY_DEMO_ERRORS=5"}, "v-slow": {"SLIPWAY_DEMO_DELAY=300ms"}}[tt.version]...)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestLookupRefuses(t *testing.T) {
	for _, ref := range []string{
		"", "nginx", "nginx:1.27", "demo:v1", "slipway.dev/demo:", "slipway.dev/demo:latest", "slipway.dev/demo:1",
		"slipway.dev/demo:v0", "slipway.dev/demo:v100", "slipway.dev/demo:v01", "slipway.dev/demo:v+1", "slipway.dev/demo:v-1", "slipway.dev/demo:v-", "slipway.dev/demo:bad",
		"slipway.dev/demo:v1 ", "slipway.dev/demo:v1@sha256:00", "slipway.dev/demo2:v1", "slipway.dev/demo/x:v1",
		"slipway.dev/demo:v99999999999999999999",
	} {
		t.Run(ref, func(t *testing.T) {
			got, err := demo.Lookup(ref)
			if err == nil {
				t.Fatalf("got %+v, want an error", got)
			}
			for _, want := range []string{
				`"` + ref + `"`, "the process node runs only the built-in demo images as local processes",
				"slipway.dev/demo:v1 to slipway.dev/demo:v99", ":v-bad and :v-slow", "use a real cluster",
			} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}
