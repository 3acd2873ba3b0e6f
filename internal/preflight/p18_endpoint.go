package preflight

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Names of Traefik's ingressEndpoint option in lower case, as flags are
// compared.
const (
	endpointFlag   = "providers.kubernetesingress.ingressendpoint."
	publishedLeaf  = "publishedservice"
	endpointConfig = `providers:
  kubernetesIngress:
    ingressEndpoint:
      publishedService: "%s/%s"
`
)

// endpointLeaves returns the options that set the reported address.
func endpointLeaves() []string { return []string{publishedLeaf, "ip", "hostname"} }

// endpointStatus is R97, for Traefik and the edge, which has the same option:
// ingressEndpoint is set in the arguments, the environment or the files of
// the controller, and the Service that it names exists.
func (in *CheckContext) endpointStatus(ctx context.Context, view *controllerView, out *Report) {
	for _, one := range view.workloads {
		out.inspect("providers.kubernetesIngress.ingressEndpoint of %s", one)
		// Each workload is checked, because several instances may have
		// different settings.
		published, given, err := in.endpointOf(ctx, one)
		if err != nil {
			out.readError("configmaps", err)
			continue
		}
		// The snippet names the Service if there is one, and a placeholder
		// otherwise.
		service := "SERVICE"
		if len(view.services) > 0 {
			service = view.services[0].Name
		}
		snippet := fmt.Sprintf(endpointConfig, one.namespace, service)
		if !given {
			finding := out.fail(one.String(), "it has no ingressEndpoint: Ingresses get no address, and their health stays Progressing", "add to its configuration:\n"+snippet)
			// The edge is configured by its chart, and an argument beside that
			// would be a conflict in its next upgrade. With several Services the
			// right one is not known, so no fix is offered.
			if view.controller.ID == SlipwayEdge {
				finding.Fix = "upgrade its release with edge.status.enabled=true"
				if one.namespace == in.Settings.Namespace {
					in.offerRelease(finding, map[string]any{"edge": map[string]any{"status": map[string]any{"enabled": true}}})
				}
			} else if len(view.services) == 1 {
				in.offerArgument(finding, one, endpointFlag+publishedLeaf, fmt.Sprintf("--%s%s=%s/%s", endpointFlag, publishedLeaf, one.namespace, service))
			}
			continue
		}
		if published != "" {
			in.evaluatePublished(ctx, one, published, snippet, out)
		}
	}
}

// endpointOf returns the option. published is empty if an address is
// configured instead of a Service.
func (in *CheckContext) endpointOf(ctx context.Context, one *workload) (published string, given bool, err error) {
	// Flags and environment variables are checked before files, in the order
	// as in the controller.
	for _, leaf := range endpointLeaves() {
		value, found := flagValue(one.program(), endpointFlag+leaf)
		for _, variable := range one.program().Env {
			if _, path, ours := strings.Cut(strings.ToLower(variable.Name), "_"); ours && path == strings.ReplaceAll(endpointFlag+leaf, ".", "_") {
				value, found = variable.Value, true
			}
		}
		if found && leaf == publishedLeaf {
			return value, true, nil
		}
		given = given || found
	}
	if given {
		return "", true, nil
	}
	// The static configuration may be a mounted file.
	for _, volume := range one.template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		config, err := in.Cluster.Client.CoreV1().ConfigMaps(one.namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", false, err
		}
		for _, text := range config.Data {
			if published, given := endpointIn(text); given {
				return published, true, nil
			}
		}
	}
	return "", false, nil
}

// endpointIn finds the option in a file: YAML, or TOML with a table of its
// own.
func endpointIn(text string) (published string, given bool) {
	var tree map[string]any
	if yaml.Unmarshal([]byte(text), &tree) == nil {
		endpoint, _ := child(child(child(tree, "providers"), "kubernetesIngress"), "ingressEndpoint").(map[string]any)
		for _, leaf := range endpointLeaves() {
			if value, ok := child(endpoint, leaf).(string); ok && value != "" {
				if leaf == publishedLeaf {
					return value, true
				}
				given = true
			}
		}
		return "", given
	}
	// TOML is searched as text: a parser for one key would be another
	// dependency.
	_, table, found := strings.Cut(strings.ToLower(text), "[providers.kubernetesingress.ingressendpoint]")
	if !found {
		return "", false
	}
	table, _, _ = strings.Cut(table, "\n[")
	for line := range strings.Lines(table) {
		key, value, assigned := strings.Cut(line, "=")
		if assigned && strings.TrimSpace(key) == publishedLeaf {
			return strings.Trim(strings.TrimSpace(value), `"'`), true
		}
		given = given || assigned
	}
	return "", given
}

// child returns an entry of a map, case-insensitively.
func child(tree any, name string) any {
	entries, _ := tree.(map[string]any)
	for key, value := range entries {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}

// evaluatePublished checks the published Service.
func (in *CheckContext) evaluatePublished(ctx context.Context, one *workload, published, snippet string, out *Report) {
	// The option needs the qualified form; a bare name is a common mistake.
	namespace, name, qualified := strings.Cut(published, "/")
	if !qualified || namespace == "" || name == "" || strings.Contains(name, "/") {
		out.fail(one.String(), fmt.Sprintf("its publishedService is %q, and has to be <namespace>/<service>", published), "write:\n"+snippet)
		return
	}
	subject := named("Service", namespace, name)
	out.inspect("publishedService is %s", subject)
	service, err := in.Cluster.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		out.fail(one.String(), "its publishedService "+published+" does not exist", "write:\n"+snippet)
	case err != nil:
		out.readError("services", err)
	case len(serviceAddresses(*service)) == 0:
		out.warn(subject, "it has no address that could be reported", "see P15")
	}
}
