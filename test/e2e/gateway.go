package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	kuberest "k8s.io/client-go/rest"
)

// meshNamespace and meshGateway are where Istio's Gateway is.
const (
	meshNamespace = "istio-system"
	meshGateway   = meshNamespace + "/public"
)

// serveGateway runs the ingress gateway of a mesh: it routes requests by the
// hosts and prefixes of the cluster's VirtualServices, and knows nothing else of
// Istio. It reads them at each request, because there are few of both.
func serveGateway(ctx context.Context) error {
	config, err := kuberest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	routes := client.Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1alpha3", Resource: "virtualservices"})
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := routes.List(r.Context(), metav1.ListOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		for _, one := range found.Items {
			if target := destination(&one, r.Host, r.URL.Path); target != "" {
				proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
					p.SetURL(&url.URL{Scheme: "http", Host: target})
					p.Out.Host = p.In.Host
				}}
				proxy.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	}))
}

// destination returns the address that a VirtualService has for a host and a
// path, or an empty string.
func destination(route *unstructured.Unstructured, host, path string) string {
	hosts, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hosts")
	gateways, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "gateways")
	if !slices.Contains(hosts, host) || !slices.Contains(gateways, meshGateway) {
		return ""
	}
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "http")
	for _, each := range rules {
		rule, _ := each.(map[string]any)
		if rule == nil || !matches(rule, path) {
			continue
		}
		targets, _, _ := unstructured.NestedSlice(rule, "route")
		if len(targets) == 0 {
			return ""
		}
		first, _ := targets[0].(map[string]any)
		name, _, _ := unstructured.NestedString(first, "destination", "host")
		port, _, _ := unstructured.NestedInt64(first, "destination", "port", "number")
		return fmt.Sprintf("%s.%s.svc.cluster.local:%d", name, route.GetNamespace(), port)
	}
	return ""
}

// matches reports whether a rule has a prefix of the path.
func matches(rule map[string]any, path string) bool {
	list, _, _ := unstructured.NestedSlice(rule, "match")
	return slices.ContainsFunc(list, func(each any) bool {
		match, _ := each.(map[string]any)
		prefix, found, _ := unstructured.NestedString(match, "uri", "prefix")
		return found && strings.HasPrefix(path, prefix)
	})
}

// startGateway gives the cluster the definitions of a mesh, its Gateway and the
// ingress gateway behind a load balancer, and waits until that responds.
func (s *scene) startGateway(ctx context.Context) error {
	if err := s.manifest(ctx, istioDefinition("VirtualService")+istioDefinition("Gateway")); err != nil {
		return err
	}
	for _, plural := range []string{"virtualservices", "gateways"} {
		if err := s.established(ctx, plural+".networking.istio.io"); err != nil {
			return err
		}
	}
	if err := s.manifest(ctx, namespace(meshNamespace)+fmt.Sprintf(gatewayManifest, meshNamespace, webImage)); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error { return connects(ctx, meshHost+":80") })
}

// stopGateway removes what startGateway has made.
func (s *scene) stopGateway(ctx context.Context) error {
	for _, words := range [][]string{
		{"delete", "namespace", meshNamespace}, {"delete", "clusterrole,clusterrolebinding", "istio-ingressgateway"},
		{"delete", "crd", "virtualservices.networking.istio.io", "gateways.networking.istio.io"},
	} {
		if output, err := s.node.Kubectl(ctx, append(words, "--timeout=120s")...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", words, err, output)
		}
	}
	return nil
}

// istioDefinition returns the CRD of a kind of Istio, without its schema.
func istioDefinition(kind string) string {
	singular := strings.ToLower(kind)
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.networking.istio.io}
spec:
  group: networking.istio.io
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  scope: Namespaced
  versions:
    - name: v1alpha3
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, singular)
}

// gatewayManifest is the format of the ingress gateway. Its arguments are the
// namespace and the image.
const gatewayManifest = `---
apiVersion: networking.istio.io/v1alpha3
kind: Gateway
metadata: {name: public, namespace: %[1]s}
spec: {selector: {istio: ingressgateway}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: istio-ingressgateway, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: istio-ingressgateway}
rules: [{apiGroups: [networking.istio.io], resources: [virtualservices], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: istio-ingressgateway}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: istio-ingressgateway}
subjects: [{kind: ServiceAccount, name: istio-ingressgateway, namespace: %[1]s}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: istio-ingressgateway, namespace: %[1]s, labels: {istio: ingressgateway}}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  template:
    metadata: {labels: {istio: ingressgateway}}
    spec:
      serviceAccountName: istio-ingressgateway
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: gateway
          image: %[2]s
          command: [/usr/local/bin/slipway-e2e, gateway]
          imagePullPolicy: Never
          ports: [{containerPort: 8080}]
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: %[1]s, labels: {istio: ingressgateway}}
spec:
  type: LoadBalancer
  selector: {istio: ingressgateway}
  ports: [{port: 80, targetPort: 8080}]
`
