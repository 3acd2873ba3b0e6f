package controller

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

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
	return &resolve.NGINXOptions{
		Class: n.AnnotationClass, Controller: n.ControllerClass, WithoutClass: n.WatchIngressWithoutClass, Defaults: allowSnippets(n, defaults),
	}
}

// allowSnippets allows snippets in the defaults if the options do.
func allowSnippets(n *config.KubernetesIngressNGINX, defaults *nginx.Settings) *nginx.Settings {
	if !n.AllowSnippetAnnotations {
		return defaults
	}
	if defaults == nil {
		defaults = nginx.Defaults()
	}
	defaults.Snippets.Allowed = true
	return defaults
}

// configMapPeriod is how often the file of the ConfigMap is read for changes.
const configMapPeriod = 2 * time.Second

// configMapFollower passes on the settings whenever the file of the ConfigMap changes. A
// file that cannot be used changes nothing: an operator who edits it must not close
// thousands of Ingresses by a typing error.
type configMapFollower struct {
	options *config.KubernetesIngressNGINX
	period  time.Duration
	// seen is the content of the file that was passed on last.
	seen  []byte
	apply func(*nginx.Settings)
	log   *slog.Logger
}

// run follows the file until ctx is done.
func (f *configMapFollower) run(ctx context.Context) {
	n, log := f.options, f.log
	tick := time.NewTicker(f.period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text, err := readConfigMapFile(n.ConfigMapFile)
		if err == nil && bytes.Equal(text, f.seen) || err != nil && f.seen == nil {
			continue
		}
		f.seen = text
		var settings *nginx.Settings
		if err == nil {
			settings, err = parseConfigMap(n.ConfigMapFile, text)
		}
		if err != nil {
			log.Error("the ConfigMap of ingress-nginx cannot be used; its settings stay as they were", "file", n.ConfigMapFile, "error", err)
			continue
		}
		f.apply(allowSnippets(n, settings))
		log.Info("the ConfigMap of ingress-nginx has changed; its settings are live", "file", n.ConfigMapFile)
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
	text, err := readConfigMapFile(name)
	if err != nil {
		return nil, err
	}
	return parseConfigMap(name, text)
}

// readConfigMapFile reads the file, up to maxConfigMap.
func readConfigMapFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigMap+1))
	if err == nil && len(text) > maxConfigMap {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxConfigMap)
	}
	return text, err
}

// parseConfigMap parses the manifest of the ConfigMap.
func parseConfigMap(name string, text []byte) (*nginx.Settings, error) {
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
