package migratecmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/must"
)

// BenchmarkReport reports 5,000 Ingresses of ingress-nginx from a file.
func BenchmarkReport(b *testing.B) {
	var input strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&input, `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web-%d, namespace: team-%d, annotations: {nginx.ingress.kubernetes.io/proxy-body-size: 8m}}
spec:
  ingressClassName: nginx
  tls: [{hosts: [h%d.example], secretName: tls-%d}]
  rules: [{host: h%d.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}, {path: /api, pathType: Prefix, backend: {service: {name: api, port: {number: 80}}}}]}}]
`, i, i%100, i, i, i)
	}
	file := filepath.Join(b.TempDir(), "input.yaml")
	must.Do(b, os.WriteFile(file, []byte(input.String()), 0o600))
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "SLIPWAY_") {
			b.Setenv(name, "")
			must.Do(b, os.Unsetenv(name))
		}
	}
	for b.Loop() {
		var out, problems strings.Builder
		if code := cli.Execute(b.Context(), []string{"migrate", "report", "-f", file, "-o", "json"}, &out, &problems); code != 0 {
			b.Fatalf("exit code %d: %.2000s", code, problems.String())
		}
	}
}
