package preflight

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	endpointFlag   = "providers.kubernetesingress.ingressendpoint."
	publishedLeaf  = "publishedservice"
	endpointConfig = `providers:
  kubernetesIngress:
    ingressEndpoint:
      publishedService: "%s/%s"
`
)

// endpointLeaves are the ways to say which address is reported.
func endpointLeaves() []string { return []string{publishedLeaf, "ip", "hostname"} }

// endpointStatus is R97, for Traefik and for our edge, which has the same option:
// ingressEndpoint among the arguments, the environment or the files of the
// controller, and the Service that it names.
func (in *Inquiry) endpointStatus(ctx context.Context, view *controllerView, out *Report) {
	for _, one := range view.workloads {
		out.look("providers.kubernetesIngress.ingressEndpoint of %s", one)
		published, given, err := in.endpointOf(ctx, one)
		if err != nil {
			out.unseen("configmaps", err)
			continue
		}
		service := "SERVICE"
		if len(view.services) > 0 {
			service = view.services[0].Name
		}
		snippet := fmt.Sprintf(endpointConfig, one.namespace, service)
		if !given {
			finding := out.fail(one.String(), "it has no ingressEndpoint: Ingresses get no address, and their health stays Progressing", "add to its configuration:\n"+snippet)
			if len(view.services) == 1 {
				in.offerArgument(finding, one, endpointFlag+publishedLeaf, fmt.Sprintf("--%s%s=%s/%s", endpointFlag, publishedLeaf, one.namespace, service))
			}
			continue
		}
		if published != "" {
			in.judgePublished(ctx, one, published, snippet, out)
		}
	}
}

// endpointOf finds the setting. The Service is empty when an address is given.
func (in *Inquiry) endpointOf(ctx context.Context, one *workload) (published string, given bool, err error) {
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

// endpointIn finds the setting in a file: YAML, or TOML with a table of its own.
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

// child is an entry of a map, found without case.
func child(tree any, name string) any {
	entries, _ := tree.(map[string]any)
	for key, value := range entries {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}

func (in *Inquiry) judgePublished(ctx context.Context, one *workload, published, snippet string, out *Report) {
	namespace, name, qualified := strings.Cut(published, "/")
	if !qualified || namespace == "" || name == "" || strings.Contains(name, "/") {
		out.fail(one.String(), fmt.Sprintf("its publishedService is %q, and has to be <namespace>/<service>", published), "write:\n"+snippet)
		return
	}
	subject := named("Service", namespace, name)
	out.look("publishedService is %s", subject)
	service, err := in.Cluster.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		out.fail(one.String(), "its publishedService "+published+" does not exist", "write:\n"+snippet)
	case err != nil:
		out.unseen("services", err)
	case len(serviceAddresses(*service)) == 0:
		out.warn(subject, "it has no address that could be reported", "see P15")
	}
}
