package reconcile

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// maxListed bounds the lists of images and addresses.
const maxListed = 100

// summarize lists the images and URLs of live objects.
func summarize(objects []*unstructured.Unstructured) v1alpha1.ApplicationSummary {
	var summary v1alpha1.ApplicationSummary
	for _, object := range objects {
		summary.Images = append(summary.Images, imagesOf(object)...)
		summary.ExternalURLs = append(summary.ExternalURLs, urlsOf(object)...)
	}
	summary.Images = listed(summary.Images)
	summary.ExternalURLs = listed(summary.ExternalURLs)
	return summary
}

// listed sorts and bounds a list, and removes repetitions: the status must not
// change with the order of the objects.
func listed(texts []string) []string {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return slices.Clip(texts[:min(len(texts), maxListed)])
}

// imagesOf returns the images of the containers of an object that has a Pod or
// a Pod template.
func imagesOf(object *unstructured.Unstructured) []string {
	var images []string
	for _, place := range [][]string{
		{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"},
	} {
		for _, field := range []string{"containers", "initContainers"} {
			containers, _, _ := unstructured.NestedSlice(object.Object, append(slices.Clone(place), field)...)
			for _, one := range containers {
				container, _ := one.(map[string]any)
				if image, _ := container["image"].(string); image != "" {
					images = append(images, image)
				}
			}
		}
	}
	return images
}

// urlsOf returns the URLs of an Ingress that a controller serves. Wildcard
// hosts have none.
func urlsOf(object *unstructured.Unstructured) []string {
	kind := object.GroupVersionKind()
	if kind.Kind != "Ingress" || kind.Group != "networking.k8s.io" {
		return nil
	}
	serving, _, _ := unstructured.NestedSlice(object.Object, "status", "loadBalancer", "ingress")
	if len(serving) == 0 {
		return nil
	}
	secured := tlsHosts(object)
	rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "rules")
	var addresses []string
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		host, _ := rule["host"].(string)
		if host == "" || strings.Contains(host, "*") {
			continue
		}
		scheme := "http"
		if slices.Contains(secured, host) {
			scheme = "https"
		}
		paths, _, _ := unstructured.NestedSlice(rule, "http", "paths")
		for _, one := range paths {
			path, _ := one.(map[string]any)
			text, _ := path["path"].(string)
			address := url.URL{Scheme: scheme, Host: host, Path: text}
			addresses = append(addresses, address.String())
		}
	}
	return addresses
}

// tlsHosts returns the hosts of an Ingress that have a certificate.
func tlsHosts(object *unstructured.Unstructured) []string {
	entries, _, _ := unstructured.NestedSlice(object.Object, "spec", "tls")
	var hosts []string
	for _, one := range entries {
		entry, _ := one.(map[string]any)
		names, _, _ := unstructured.NestedStringSlice(entry, "hosts")
		hosts = append(hosts, names...)
	}
	return hosts
}
