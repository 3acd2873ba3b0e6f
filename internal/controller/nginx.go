package controller

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/status"
)

// maxConfigMap bounds the file of the ConfigMap; one of a cluster has at most 1 MiB.
const maxConfigMap = 4 << 20

// nginxOptions returns the options for ingress-nginx's Ingresses, nil without them. A
// file that cannot be used was reported before.
func nginxOptions(options *config.Edge) *resolve.NGINXOptions {
	n := options.Providers.KubernetesIngressNGINX
	if n == nil {
		return nil
	}
	defaults, _ := nginxDefaults(options)
	if n.AllowSnippetAnnotations {
		if defaults == nil {
			defaults = nginx.Defaults()
		}
		defaults.Snippets.Allowed = true
	}
	return &resolve.NGINXOptions{
		Class: n.AnnotationClass, Controller: n.ControllerClass, WithoutClass: n.WatchIngressWithoutClass, Defaults: defaults,
	}
}

// sharedStatus returns who writes the status of ingress-nginx's Ingresses.
func sharedStatus(options *config.Edge) status.Shared {
	n := options.Providers.KubernetesIngressNGINX
	if n == nil {
		return status.Shared{}
	}
	namespace, name, _ := strings.Cut(n.StatusLease, "/")
	return status.Shared{Unpublished: !n.PublishStatus, LeaseNamespace: namespace, LeaseName: name}
}

// nginxDefaults reads the ConfigMap of ingress-nginx; nil without a file. If the error is
// nginx.ConfigFaults, the settings are those of the other keys.
func nginxDefaults(options *config.Edge) (*nginx.Settings, error) {
	n := options.Providers.KubernetesIngressNGINX
	if n == nil || n.ConfigMapFile == "" {
		return nil, nil
	}
	settings, err := readConfigMap(n.ConfigMapFile)
	if err != nil {
		return settings, fmt.Errorf("providers.kubernetesIngressNGINX.configMapFile: %w", err)
	}
	return settings, nil
}

func readConfigMap(name string) (*nginx.Settings, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigMap+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfigMap {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxConfigMap)
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return nil, fmt.Errorf("%s is not the manifest of a ConfigMap: %w", name, err)
	}
	if object.Kind != "ConfigMap" {
		return nil, fmt.Errorf("%s has the kind %q: it must be a ConfigMap", name, object.Kind)
	}
	settings, faults := nginx.ParseConfig(object.Data)
	return settings, nginx.ConfigError(faults)
}

// nginxProtections are the annotations of ingress-nginx that restrict who is
// served, with ours. Without them the edge serves more than the author wanted;
// all others change at most how it is served.
var nginxProtections = map[string]string{
	"allowlist-source-range": "ip-filter", "whitelist-source-range": "ip-filter", "denylist-source-range": "ip-filter",
	"auth-type": "basic-auth", "auth-secret": "basic-auth",
	"auth-url": "forward-auth", "auth-signin": "forward-auth", "enable-global-auth": "forward-auth",
	"auth-tls-secret": "tls-options", "auth-tls-verify-client": "tls-options", "auth-tls-match-cn": "tls-options",
	"limit-rps": "rate-limit", "limit-rpm": "rate-limit", "limit-connections": "in-flight", "global-rate-limit": "rate-limit",
	"force-ssl-redirect": "redirect-scheme", "ssl-redirect": "redirect-scheme",
	"proxy-body-size":    "body-limit",
	"enable-modsecurity": "waf", "modsecurity-snippet": "waf", "configuration-snippet": "", "server-snippet": "", "auth-snippet": "",
}

// ignoredProtections returns a warning for each such annotation of the Ingresses
// that this edge would serve.
func (o *Offline) ignoredProtections(severity finding.Severity) (findings []manifest.Finding) {
	ours, _ := o.Sites()
	for _, ref := range ours {
		if o.engine.AsNGINX(ref) {
			continue // they are read, and refused where they cannot be carried out
		}
		given := o.facts.Ingress(ref.Namespace, ref.Name).Annotations
		for _, name := range slices.Sorted(maps.Keys(given)) {
			suffix, ofNGINX := strings.CutPrefix(name, nginx.Prefix)
			own, protects := nginxProtections[suffix]
			if !ofNGINX || !protects || given[name] == "false" || given[name] == "" {
				continue
			}
			advice := "protect the Ingress in another way"
			if own != "" {
				advice = "set slipway.dev/" + own
			}
			findings = append(findings, manifest.Finding{
				Severity: severity, File: o.Set.Files[ref], Object: ref.String(), Field: "metadata.annotations[" + name + "]", Reason: refusal.Ignored,
				Message: "it is an annotation of ingress-nginx and has no effect here, so the Ingress is served without this protection: " + advice,
			})
		}
	}
	return findings
}

// Refused returns how many of the Ingresses are not served as they are written, by
// the findings.
func Refused(ingresses []snapshot.Ref, findings []manifest.Finding) int {
	faulty := map[string]bool{}
	for _, found := range findings {
		faulty[found.Object] = faulty[found.Object] || found.Severity == finding.Error
	}
	count := 0
	for _, ref := range ingresses {
		if faulty[ref.String()] {
			count++
		}
	}
	return count
}
