package gatewayapi

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// TestDefinitions: every kind that the edge serves is there, with a name and a version.
func TestDefinitions(t *testing.T) {
	var names []string
	for _, d := range must.Get(Definitions())(t) {
		name, group, _ := strings.Cut(d.Name, ".")
		names = append(names, name)
		if group != Group || d.Version != "v1.6.3" || !strings.HasPrefix(string(d.Text), "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n") {
			t.Errorf("%s, version %s:\n%.200s", d.Name, d.Version, d.Text)
		}
	}
	const want = "backendtlspolicies gatewayclasses gateways grpcroutes httproutes listenersets referencegrants tcproutes tlsroutes udproutes"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the definitions are %s, want %s", got, want)
	}
}

// TestReplaces: an older version of the standard channel is replaced, and nothing else.
func TestReplaces(t *testing.T) {
	d := Definition{Name: "gateways." + Group, Version: "v1.6.3"}
	for _, test := range []struct {
		version, channel string
		want             bool
	}{
		{"v1.6.2", "standard", true},
		{"v1.5.0", "standard", true},
		{"v1.6.3-rc.1", "standard", true},
		{"v1.6.3", "standard", false},
		{"v1.6.4", "standard", false},
		{"v1.10.0", "standard", false},
		{"v2.0.0", "standard", false},
		{"v1.5.0", "experimental", false},
		{"v1.5.0", "", false},
		{"", "standard", false},
		{"latest", "standard", false},
	} {
		annotations := map[string]string{VersionAnnotation: test.version, ChannelAnnotation: test.channel}
		if got := d.Replaces(annotations); got != test.want {
			t.Errorf("replaces %s of the channel %q: %t", test.version, test.channel, got)
		}
	}
	if d.Replaces(nil) {
		t.Error("replaces a definition of unknown age")
	}
}
