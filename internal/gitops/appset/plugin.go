package appset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/secret"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/kube"
)

// The limits of a plugin.
const (
	pluginTimeout    = 30 * time.Second
	maxPluginTimeout = time.Minute
	maxPluginBytes   = 4 << 20
)

// Plugin requests sets of parameters from a plugin. Its address and its token
// are in a ConfigMap and a Secret of the control namespace, where an
// administrator writes them; a project has to allow the address like a source.
func (f *ClusterFacts) Plugin(ctx context.Context, set string, g *v1alpha1.PluginGenerator) ([]map[string]any, error) {
	config, err := f.controlConfig(ctx, g.ConfigMapRef.Name, "baseUrl", "token")
	if err != nil {
		return nil, err
	}
	base := strings.TrimRight(config["baseUrl"], "/")
	if err := f.admit(base); err != nil {
		return nil, err
	}
	token, err := f.pluginToken(ctx, config["token"])
	if err != nil {
		return nil, fmt.Errorf("the token in the ConfigMap %s: %w", g.ConfigMapRef.Name, err)
	}
	timeout := pluginTimeout
	if seconds, err := strconv.Atoi(config["requestTimeout"]); err == nil && seconds > 0 {
		timeout = min(time.Duration(min(seconds, 3600))*time.Second, maxPluginTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"applicationSetName": set, "input": map[string]any{"parameters": g.Input.Parameters}})
	if err != nil {
		return nil, err
	}
	return f.postPlugin(ctx, base+"/api/v1/getparams.execute", token, body)
}

// controlConfig returns the data of a ConfigMap of the control namespace that has all
// keys. One that is missing and one without the keys give the same error: the author of
// a set may lack the right to find out which ConfigMaps there are.
func (f *ClusterFacts) controlConfig(ctx context.Context, name string, keys ...string) (map[string]string, error) {
	config, err := f.configMap(ctx, f.Namespace, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, key := range keys {
		if config[key] == "" {
			return nil, fmt.Errorf("the control namespace has no ConfigMap %s with the keys %s", name, strings.Join(keys, ", "))
		}
	}
	return config, nil
}

// pluginToken reads $key of argocd-secret, or $name:key of another Secret.
func (f *ClusterFacts) pluginToken(ctx context.Context, reference string) (secret.Text, error) {
	reference, found := strings.CutPrefix(reference, "$")
	if !found || reference == "" {
		return secret.Text{}, errors.New("write $key for a key of the Secret argocd-secret, or $name:key for another one")
	}
	name, key, other := strings.Cut(reference, ":")
	if !other {
		name, key = "argocd-secret", reference
	}
	ofControl := *f
	ofControl.SetNamespace, ofControl.limits = f.Namespace, nil
	return ofControl.secretKey(ctx, name, key)
}

// postPlugin sends a request, and decodes the sets in the response.
func (f *ClusterFacts) postPlugin(ctx context.Context, address string, token secret.Text, body []byte) ([]map[string]any, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("baseUrl is no address such as http://plugin.namespace.svc.cluster.local")
	}
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: 10 * time.Second}
	f.Outbound.Apply(transport, net.Dialer{Timeout: 10 * time.Second})
	// The token goes to the address that an administrator wrote, and nowhere else.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the plugin is unreachable: %s", strings.ReplaceAll(err.Error(), token.Reveal(), secret.Redacted))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the plugin fails with %s", response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxPluginBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the response of the plugin cannot be read: %w", err)
	}
	if len(content) > maxPluginBytes {
		return nil, fmt.Errorf("the response of the plugin has more than %d bytes", maxPluginBytes)
	}
	return parsePlugin(content)
}

// parsePlugin decodes the response of a plugin.
func parsePlugin(content []byte) ([]map[string]any, error) {
	var decoded struct {
		Output struct {
			Parameters []map[string]any `json:"parameters"`
		} `json:"output"`
	}
	if err := json.Unmarshal(content, &decoded); err != nil {
		return nil, fmt.Errorf("the plugin does not respond with output.parameters, a list of objects: %.200w", err)
	}
	return decoded.Output.Parameters, nil
}

// Decisions returns the clusters that objects of the control namespace list in
// their status. A ConfigMap there has the kind of the objects, as in Argo CD.
func (f *ClusterFacts) Decisions(ctx context.Context, g *v1alpha1.DuckTypeGenerator) ([]generate.Decision, error) {
	config, err := f.controlConfig(ctx, g.ConfigMapRef, "apiVersion", "kind", "matchKey")
	if err != nil {
		return nil, err
	}
	version, err := schema.ParseGroupVersion(config["apiVersion"])
	if err != nil || version.Group == "" {
		return nil, fmt.Errorf("the ConfigMap %s needs apiVersion with a group, and kind as the plural name of a resource", g.ConfigMapRef)
	}
	listed, err := f.decided(ctx, version.WithResource(config["kind"]), g)
	if err != nil {
		return nil, err
	}
	clusters, err := f.Clusters(ctx, labels.Everything())
	if err != nil {
		return nil, err
	}
	byName := map[string]generate.Cluster{}
	for _, cluster := range clusters {
		byName[cluster.Name] = cluster
	}
	key := config["statusListKey"]
	if key == "" {
		key = "clusters"
	}
	var decisions []generate.Decision
	for i := range listed {
		elements, _, _ := unstructured.NestedSlice(listed[i].Object, "status", key)
		for _, element := range elements {
			fields, _ := element.(map[string]any)
			// Clusters that are not registered are left out.
			if cluster, known := byName[fmt.Sprint(fields[config["matchKey"]])]; known && fields != nil {
				decisions = append(decisions, generate.Decision{Name: cluster.Name, Server: cluster.Server, Project: cluster.Project, Fields: fields})
			}
		}
	}
	return decisions, nil
}

// decided lists the objects that a generator names or selects.
func (f *ClusterFacts) decided(ctx context.Context, resource schema.GroupVersionResource, g *v1alpha1.DuckTypeGenerator) ([]unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := kube.Named(g.Name)
	if g.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(g.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("labelSelector: %w", err)
		}
		options = metav1.ListOptions{LabelSelector: selector.String()}
	}
	options.Limit = 500
	list, err := f.Cluster.Dynamic.Resource(resource).Namespace(f.Namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("%s of namespace %s cannot be read: %w", resource.GroupResource(), f.Namespace, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there is no object of %s in namespace %s that the generator names", resource.GroupResource(), f.Namespace)
	}
	return list.Items, nil
}
