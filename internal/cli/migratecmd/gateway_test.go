package migratecmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// TestGateway converts manifests: what is printed, what is reported, and that requests
// are handled as before. An archive has flags as its comment, the manifests, what is
// printed and what is reported.
func TestGateway(t *testing.T) {
	archives.Each(t, "testdata/gateway/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		clitest.Clean(t)
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "input.yaml"), archive.Files[0].Data, 0o600))
		got := clitest.Run(t, "migrate gateway "+strings.TrimSpace(string(archive.Comment))+" -f "+dir)
		archives.Check(t, &archive.Files[1], got.Stdout)
		archives.Check(t, &archive.Files[2], got.Stderr)
		if wrong := strings.Contains(got.Stderr, "\ndiffers "); wrong != (got.Code == 1) {
			t.Errorf("exit code %d with %s", got.Code, got.Stderr)
		}
		// What is printed is accepted as it is written. Without ages, the host of two
		// namespaces can belong to either.
		if strings.Contains(got.Stderr, "apply its routes before") {
			return
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, "output.yaml"), []byte(got.Stdout), 0o600))
		if lint := clitest.Run(t, "lint -f "+dir); lint.Code != 0 {
			t.Errorf("lint: %s%s", lint.Stdout, lint.Stderr)
		}
	})
}

// TestGatewayLimits: what is more than an object of Gateway API can have is in several
// objects, and served as before.
func TestGatewayLimits(t *testing.T) {
	clitest.Clean(t)
	var input strings.Builder
	fmt.Fprint(&input, "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: many, namespace: shop}\nspec:\n  tls:\n")
	for i := range 70 {
		fmt.Fprintf(&input, "  - {hosts: [h%d.example], secretName: s%d}\n", i, i)
	}
	fmt.Fprint(&input, "  rules:\n")
	for i := range 70 {
		fmt.Fprintf(&input, "  - {host: h%d.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}\n", i)
	}
	fmt.Fprint(&input, "  - host: paths.example\n    http:\n      paths:\n")
	for i := range 20 {
		fmt.Fprintf(&input, "      - {path: /%d, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}\n", i)
	}
	// A younger Ingress has another certificate for a host of the first.
	fmt.Fprint(&input, `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: younger, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  tls: [{hosts: [h0.example], secretName: other}]
  rules: [{host: h0.example, http: {paths: [{path: /x, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`)
	file := filepath.Join(t.TempDir(), "input.yaml")
	must.Do(t, os.WriteFile(file, []byte(input.String()), 0o600))
	got := clitest.Run(t, "migrate gateway -f "+file)
	// 64 listeners in the first Gateway, with that for plain HTTP, and the others in the
	// second, which two routes name; 70 hosts in routes of 16, 20 paths in routes of 16.
	for text, count := range map[string]int{"kind: Gateway\n": 2, "protocol: HTTPS": 70, "name: ingress-2\n": 10, "kind: HTTPRoute": 8} {
		if found := strings.Count(got.Stdout, text); found != count {
			t.Errorf("%q is there %d times, want %d", text, found, count)
		}
	}
	for _, want := range []string{
		"2 Ingresses converted, 0 kept: 2 Gateways, 8 HTTPRoutes", " 0 handled otherwise",
		"changed  Ingress shop/younger  spec.tls[0]: h0.example has the certificate of Secret shop/s0, which is older",
	} {
		if got.Code != 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%q is missing: %d %s", want, got.Code, got.Stderr)
		}
	}
}
