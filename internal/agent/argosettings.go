package agent

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// settingsTimeout bounds the request for an Event.
const settingsTimeout = 10 * time.Second

// argoSettings has the settings in the ConfigMap argocd-cm. It reports those that
// have no effect: once for each version, in the log of every replica and by an Event that the
// leader writes. It is safe for concurrent use.
type argoSettings struct {
	// customizations are the settings about kinds; nil until they are read.
	customizations atomic.Pointer[customization.Settings]

	mu sync.Mutex
	// configMap is the current one; nil if there is none.
	configMap *corev1.ConfigMap
	// logged and announced are the versions that were reported.
	logged, announced settingsVersion
}

// current returns the settings about kinds.
func (s *argoSettings) current() *customization.Settings {
	if read := s.customizations.Load(); read != nil {
		return read
	}
	return &customization.Settings{}
}

// settingsVersion is one version of the ConfigMap.
type settingsVersion struct {
	uid     types.UID
	version string
}

// advice is what to do about settings whose keys are, or begin with, some text.
type advice struct {
	keys []string // one that ends in * is a prefix
	text string
}

// adviceForSettings lists the settings that concern delivery. All other keys are
// of Argo CD's API server and console, which are not here.
func adviceForSettings() []advice {
	return []advice{
		{[]string{"timeout.reconciliation", "timeout.reconciliation.jitter"}, "set applications.pollInterval and applications.pollJitter of the agent"},
		{[]string{"timeout.hard.reconciliation"}, "set the annotation argocd.argoproj.io/refresh: hard where it is needed"},
		{[]string{"globalProjects"}, "write its limits into each AppProject"},
		{[]string{"resource.customizations.ignoreResourceUpdates.*"}, "remove it: an update that changes no status costs no request"},
		{[]string{"resource.customizations.knownTypeFields.*"}, "write ignoreDifferences for fields that a controller spells differently"},
		{[]string{"resource.ignoreResourceUpdatesEnabled"}, "remove it: an update that changes no status costs no request"},
		{[]string{"application.instanceLabelKey", "application.resourceTrackingMethod", "installationID"}, "remove it: objects are tracked by annotation"},
		{[]string{"kustomize.*", "helm.valuesFileSchemes", "jsonnet.enable", "helm.enable"}, "write options into the sources of the Applications"},
		{[]string{"repositories", "repository.credentials", "helm.repositories"}, "write a Secret with the label argocd.argoproj.io/secret-type for each repository"},
		{[]string{"application.sync.impersonation.enabled"}, "name destinationServiceAccounts in the AppProjects"},
	}
}

// fits reports whether the advice is for a key.
func (a advice) fits(key string) bool {
	return slices.ContainsFunc(a.keys, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return key == pattern || isPrefix && strings.HasPrefix(key, prefix)
	})
}

// describeSettings names the settings that have no effect and what to do about
// them; empty if there are none. Those that concern delivery come first: an Event
// is cut at its limit.
func describeSettings(data map[string]string) string {
	byAdvice := map[string][]string{}
	var others []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if strings.TrimSpace(data[key]) == "" || usedSettings(key) {
			continue
		}
		// The first advice that fits counts: more specific prefixes come first.
		all := adviceForSettings()
		if i := slices.IndexFunc(all, func(one advice) bool { return one.fits(key) }); i >= 0 {
			byAdvice[all[i].text] = append(byAdvice[all[i].text], key)
		} else {
			others = append(others, key)
		}
	}
	var parts []string
	for _, one := range adviceForSettings() {
		if keys := byAdvice[one.text]; len(keys) > 0 {
			parts = append(parts, strings.Join(keys, ", ")+" ("+one.text+")")
		}
	}
	if len(others) > 0 {
		parts = append(parts, strings.Join(others, ", ")+" (of Argo CD's own API and console: nothing to do)")
	}
	if len(parts) == 0 {
		return ""
	}
	return "these settings of Argo CD have no effect: " + strings.Join(parts, "; ")
}

// usedSettings reports whether settings have an effect. What has none in the one
// key for all kinds is a problem of the settings.
func usedSettings(key string) bool {
	return advice{keys: []string{
		"resource.exclusions", "resource.inclusions", "resource.compareoptions", "resource.customizations",
		"resource.customizations.health.*", "resource.customizations.actions.*", "resource.customizations.useOpenLibs.*", "resource.customizations.ignoreDifferences.*",
	}}.fits(key)
}

// applySettings uses the settings about kinds. Those of an older version count
// until all of the newer ones are read.
func (a *agent) applySettings(data map[string]string) {
	read := customization.Read(data, jq.New())
	if reflect.DeepEqual(read, a.settings.customizations.Load()) {
		return
	}
	a.health.Set(read.Health)
	a.settings.customizations.Store(read)
	a.leading.settingsChanged()
}

// updateSettings stores the ConfigMap, or that there is none, and reports it.
func (a *agent) updateSettings(ctx context.Context, found []*corev1.ConfigMap) {
	var data map[string]string
	a.settings.mu.Lock()
	a.settings.configMap = nil
	if len(found) > 0 {
		a.settings.configMap = found[0]
		data = found[0].Data
	}
	a.settings.mu.Unlock()
	a.applySettings(data)
	a.reportSettings(ctx)
}

// reportSettings reports settings without effect that were not reported yet. It
// runs when the ConfigMap changes, and when this replica becomes leader.
func (a *agent) reportSettings(ctx context.Context) {
	a.settings.mu.Lock()
	defer a.settings.mu.Unlock()
	found := a.settings.configMap
	if found == nil {
		return
	}
	text := strings.Join(a.settings.current().Problems, "; ")
	if others := describeSettings(found.Data); others != "" && text != "" {
		text += "; " + others
	} else {
		text += others
	}
	if text == "" {
		return
	}
	// Each version is reported once, also when the watch restarts.
	now := settingsVersion{uid: found.UID, version: found.ResourceVersion}
	if a.settings.logged != now {
		a.settings.logged = now
		a.log.Warn("settings have no effect", "configmap", found.Namespace+"/"+found.Name, "detail", text)
	}
	if a.settings.announced == now || a.leading.term.Load() == nil {
		return
	}
	// Set before the request: a failed Event is not retried, as the log has the
	// same text.
	a.settings.announced = now
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	reporter := kube.Reporter{Controller: controllerName, Instance: a.options.Identity}
	err := a.options.Cluster.Announce(ctx, reporter, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: found.Namespace, Name: found.Name, UID: found.UID},
		Warning:   true, Reason: "SettingsIgnored", Action: "ReadSettings", Note: text, Times: 1,
	})
	if err != nil {
		a.log.Debug("cannot write an Event", observe.KeyError, err) // the log has the same text
	}
}
