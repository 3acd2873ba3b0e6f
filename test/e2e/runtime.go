package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// runtimeName is the name under which the runtime joins the platform.
const runtimeName = "e2e"

// runtimeRelease returns the release of the runtime chart.
func runtimeRelease() helmRelease { return helmRelease{"gitops-runtime", "slipway-runtime", "slipway"} }

// installRuntime installs the runtime with the command line and a values file.
// The address of the platform, the account, an API key and the CA come from the
// sign-in, and the access mode is the tunnel (R49, R50, R53).
func (s *scene) installRuntime(ctx context.Context) (string, error) {
	// The poll interval is short and has no jitter, because the Git server
	// sends no webhooks.
	file := filepath.Join(s.work, "values.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `
global: {runtime: {cluster: e2e}}
agent:
  config: {applications: {pollInterval: 5s, pollJitter: 0s}}
  repositories: {certificates: {%s: %q}}
image: {tag: %s, pullPolicy: Never}
`, gitHost, s.authority.pem, firstTag), 0o600)
	if err != nil {
		return "", err
	}
	if err := s.manifest(ctx, namespace(runtimeRelease().namespace)); err != nil {
		return "", err
	}
	_, err = s.slipway(ctx, "", "runtime", "install", runtimeName, "--create-key", "--values", file, "--yes", "--timeout", helmTimeout.String())
	if err != nil {
		return "", err
	}
	return s.reached(ctx, "ACCESS_MODE_TUNNEL")
}

// joinTunnel switches back to the tunnel, and removes the Ingress that stood in
// for a gateway.
func (s *scene) joinTunnel(ctx context.Context) (string, error) {
	if output, err := s.node.Kubectl(ctx, "delete", "ingress", "gateway", "-n", runtimeRelease().namespace).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return s.join(ctx, "ACCESS_MODE_TUNNEL", "global.runtime.httpRoute.enabled=false", "tunnel-client.enabled=true")
}

// joinIngress switches to access through an Ingress: requests of the platform
// reach the runtime through its own edge (R51).
func (s *scene) joinIngress(ctx context.Context) (string, error) {
	return s.join(ctx, "ACCESS_MODE_INGRESS", "global.runtime.ingress.enabled=true", "global.runtime.ingress.protocol=http",
		"global.runtime.ingress.className=slipway", "global.runtime.ingress.hosts[0]="+runtimeHost)
}

// joinMesh switches to access through a service mesh. While the cluster has
// none, preflight has to refuse. With a gateway the chart creates the
// VirtualService, `slipway runtime mesh verify` evaluates it, and the gateway
// routes the requests of the platform by it (R52, R91).
func (s *scene) joinMesh(ctx context.Context) (string, error) {
	values := []string{"global.runtime.ingress.enabled=false", "tunnel-client.enabled=false", "global.runtime.ingressUrl=http://" + meshHost,
		"global.runtime.virtualService.enabled=true", "global.runtime.virtualService.gateway=" + meshGateway}
	if err := s.refused(ctx, values); err != nil {
		return "", err
	}
	if err := s.startGateway(ctx); err != nil {
		return "", err
	}
	about, err := s.join(ctx, "ACCESS_MODE_MESH", values...)
	if err != nil {
		return "", err
	}
	verified, err := s.slipway(ctx, "", "runtime", "mesh", "verify", "--runtime", runtimeName)
	if err != nil {
		return "", err
	}
	if ok := strings.Count(verified, " ok "); ok != 3 {
		return "", fmt.Errorf("the VirtualService leads %d of 3 paths to the runtime:\n%s", ok, verified)
	}
	return about + ", after preflight refused it without its gateway", nil
}

// joinHTTPRoute switches to access through the Gateway API. The node has no
// controller for it, so preflight has to refuse first. The test then compares
// the rules of the HTTPRoute, and an Ingress carries the traffic (R123).
func (s *scene) joinHTTPRoute(ctx context.Context) (string, error) {
	if err := s.manifest(ctx, gatewayDefinition+fmt.Sprintf(gatewayStandIn, runtimeRelease().namespace, runtimeHost)); err != nil {
		return "", err
	}
	if err := s.established(ctx, "httproutes.gateway.networking.k8s.io"); err != nil {
		return "", err
	}
	about, err := s.joinUnchecked(ctx, "ACCESS_MODE_HTTP_ROUTE", "global.runtime.ingressUrl=", "global.runtime.virtualService.enabled=false",
		"global.runtime.httpRoute.enabled=true", "global.runtime.httpRoute.protocol=http", "global.runtime.httpRoute.hostnames[0]="+runtimeHost,
		"global.runtime.httpRoute.parentRefs[0].name=public")
	if err != nil {
		return "", err
	}
	paths, err := s.node.Kubectl(ctx, "get", "httproute", "internal-router", "-n", runtimeRelease().namespace,
		"-o", "jsonpath={.spec.rules[*].matches[*].path.value} {.spec.rules[*].backendRefs[*].name}:{.spec.rules[*].backendRefs[*].port}").CombinedOutput()
	if want := "/webhooks /app-proxy /workflows internal-router:80"; err != nil || string(paths) != want {
		return "", fmt.Errorf("the HTTPRoute leads %q and not %q (%w)", paths, want, err)
	}
	return about + "; the HTTPRoute is looked at, its traffic goes through an Ingress in the place of a Gateway", nil
}

// join upgrades the runtime with changed values, and waits until the platform
// reaches it in the mode.
func (s *scene) join(ctx context.Context, mode string, values ...string) (string, error) {
	if _, err := s.slipway(ctx, "", upgradeWords(values)...); err != nil {
		return "", err
	}
	return s.reached(ctx, mode)
}

// joinUnchecked is join for a mode whose controller is missing. The first
// attempt has to fail in preflight without changing anything; the second skips
// preflight.
func (s *scene) joinUnchecked(ctx context.Context, mode string, values ...string) (string, error) {
	if err := s.refused(ctx, values); err != nil {
		return "", err
	}
	if _, err := s.slipway(ctx, "", append(upgradeWords(values), "--skip-preflight")...); err != nil {
		return "", err
	}
	about, err := s.reached(ctx, mode)
	return about + ", after preflight refused it without its controller", err
}

// refused requires that preflight refuses values without changing anything.
func (s *scene) refused(ctx context.Context, values []string) error {
	_, err := s.slipway(ctx, "", upgradeWords(values)...)
	if err == nil || !strings.Contains(err.Error(), "failed: nothing was changed") {
		return fmt.Errorf("preflight does not see that the controller is missing: %w", err)
	}
	return nil
}

// upgradeWords returns the arguments of `slipway runtime upgrade` with values.
// Values that are not named keep those of the previous revision, so each mode
// has to switch off the one before it.
func upgradeWords(values []string) []string {
	words := []string{"runtime", "upgrade", runtimeName, "--yes", "--timeout", helmTimeout.String()}
	for _, value := range values {
		words = append(words, "--set", value)
	}
	return words
}

// reached waits until the platform has the runtime online in a mode and gets a
// response through it. It returns the mode and the URL for the report.
func (s *scene) reached(ctx context.Context, mode string) (string, error) {
	var found struct {
		Runtime runtimeFacts `json:"runtime"`
		runtimeFacts
	}
	err := s.until(ctx, func(ctx context.Context) error {
		text, err := s.slipway(ctx, "", "runtime", "get", runtimeName, "--output", "json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return err
		}
		// The object is either the response itself or nested below "runtime".
		if found.AccessMode == "" {
			found.runtimeFacts = found.Runtime
		}
		if !found.Online || found.AccessMode != mode {
			return fmt.Errorf("the runtime is %s", text)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	// The platform has no copy of a runtime's integrations, so this request
	// crosses the tunnel or the Ingress and proves that the path works.
	err = s.until(ctx, func(ctx context.Context) error {
		_, err := s.slipway(ctx, "", "integration", "git", "list", "--runtime", runtimeName)
		return err
	})
	return strings.TrimSpace(strings.ToLower(strings.TrimPrefix(found.AccessMode, "ACCESS_MODE_")) + " " + found.AccessURL), err
}

// runtimeFacts are the fields of a runtime in the platform's response that the
// test reads.
type runtimeFacts struct {
	Online     bool   `json:"online"`
	AccessMode string `json:"accessMode"`
	AccessURL  string `json:"accessUrl"`
}

// established waits until the API server serves the kind of a CRD. Objects of
// the kind are rejected before that.
func (s *scene) established(ctx context.Context, definition string) error {
	output, err := s.node.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/"+definition).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// uninstallRuntime removes the application and the release. The output of the
// uninstall has to name every object that it leaves, and the kubectl commands
// that it prints have to remove them (R113). The test runs these commands as
// printed.
func (s *scene) uninstallRuntime(ctx context.Context) (string, error) {
	if err := s.removeApplication(ctx); err != nil {
		return "", err
	}
	text, err := s.slipway(ctx, "", "runtime", "uninstall", runtimeName, "--yes")
	if err != nil {
		return "", err
	}
	in := runtimeRelease().namespace
	left, err := s.leftIn(ctx, in, func(name string) bool {
		_, name, _ = strings.Cut(name, "/")
		return strings.Contains(text, " "+in+"/"+name+":")
	})
	if err != nil {
		return "", fmt.Errorf("%w, with the output:\n%s", err, text)
	}
	commands := 0
	for line := range strings.Lines(text) {
		words, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl ")
		if !ok {
			continue
		}
		commands++
		// A command may name an object in a namespace that an earlier one
		// deleted.
		if output, err := s.node.Kubectl(ctx, append(strings.Fields(words), "--ignore-not-found", "--timeout=120s")...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("kubectl %s: %w: %s", words, err, output)
		}
	}
	return fmt.Sprintf("it names everything that it leaves (in the namespace %d objects), and its %d commands remove that", len(left), commands), nil
}

// gatewayStandIn is an Ingress that routes to the runtime in place of a
// gateway. Its arguments are the namespace and the host.
const gatewayStandIn = `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: gateway, namespace: %s}
spec:
  ingressClassName: slipway
  rules:
    - host: %s
      http:
        paths: [{path: /, pathType: Prefix, backend: {service: {name: internal-router, port: {number: 80}}}}]
`

// gatewayDefinition is the CRD of the Gateway API's HTTPRoute, without its
// schema. The annotation is required for groups below k8s.io.
const gatewayDefinition = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: httproutes.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/2997"}
spec:
  group: gateway.networking.k8s.io
  names: {kind: HTTPRoute, listKind: HTTPRouteList, plural: httproutes, singular: httproute}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
