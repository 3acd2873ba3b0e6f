package kubetest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
)

func TestLabelFrom(t *testing.T) {
	tests := []struct{ name, want string }{
		{"TestRoute", "testroute"},
		{"TestRoute/exact_host", "testroute-exact-host"},
		{"TestRoute/a//b#01", "testroute-a-b-01"},
		{"--", "test"},
		{"Übung", "bung"},
		{strings.Repeat("a", 80), strings.Repeat("a", namespaceStart)},
	}
	for _, test := range tests {
		if got := labelFrom(test.name); got != test.want {
			t.Errorf("labelFrom(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func FuzzLabelFrom(f *testing.F) {
	f.Add("TestRoute/exact_host")
	f.Fuzz(func(t *testing.T, name string) {
		if !privatenet.Inside() {
			t.Fatal("this process is not in the private network")
		}
		label := labelFrom(name) + "-x7k2q"
		if findings := validation.IsDNS1123Label(label); len(findings) > 0 {
			t.Errorf("%q gives %q: %v", name, label, findings)
		}
	})
}

func TestPodNetworksAreApart(t *testing.T) {
	var networks podNetworks
	first, err := networks.take()
	if err != nil || first.String() != "10.244.0.0/24" {
		t.Fatalf("got %s, %v", first, err)
	}
	for range 255 {
		if next, err := networks.take(); err != nil || next.Overlaps(first) || !PodNetwork().Overlaps(next) {
			t.Fatalf("got %s, %v", next, err)
		}
	}
	if next, err := networks.take(); err == nil {
		t.Errorf("got %s, want an error when none is left", next)
	}
	networks.release(first)
	if again, err := networks.take(); again != first {
		t.Errorf("got %s, %v, want %s again", again, err, first)
	}
}
