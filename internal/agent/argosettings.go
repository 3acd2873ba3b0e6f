package agent

import (
	"cmp"
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

	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// settingsTimeout bounds the request for an Event.
const settingsTimeout = 10 * time.Second

// argoSettings has the settings in the ConfigMaps argocd-cm and argocd-cmd-params-cm. It
// reports those that have no effect: once for each version, in the log of every replica and by
// an Event that the leader writes. It is safe for concurrent use.
type argoSettings struct {
	// customizations are the settings about kinds; nil until they are read.
	customizations atomic.Pointer[customization.Settings]
	// globals is the setting of global projects; nil until it is read.
	globals atomic.Pointer[project.Globals]

	config, parameters reportedSettings
}

// reportedSettings is a ConfigMap with settings, and what of it was reported.
type reportedSettings struct {
	mu sync.Mutex
	// configMap is the current one; nil if there is none.
	configMap *corev1.ConfigMap
	// logged and announced are the versions that were reported.
	logged, announced settingsVersion
}

// set stores the ConfigMap, or that there is none, and returns its settings.
func (s *reportedSettings) set(found []*corev1.ConfigMap) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configMap = nil
	if len(found) == 0 {
		return nil
	}
	s.configMap = found[0]
	return found[0].Data
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

// describeSettings names the settings that have no effect and what to do about
// them; empty if there are none. Those that concern delivery come first: an Event
// is cut at its limit.
func describeSettings(table argosetting.Table, data map[string]string) string {
	byText := map[string][]string{}
	// ranks are the places of the texts in the table. Keys that Argo CD does not
	// have come last.
	ranks := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		setting, known := table.Of(key, data[key])
		// What has no effect in the one key for all kinds is a problem of the
		// settings, which are reported beside this text.
		if setting.Effect == argosetting.Same || strings.TrimSpace(data[key]) == "" {
			continue
		}
		byText[setting.Text] = append(byText[setting.Text], key)
		ranks[setting.Text] = len(table)
		if known {
			ranks[setting.Text] = table.Rank(key)
		}
	}
	var parts []string
	for _, text := range slices.SortedFunc(maps.Keys(byText), func(x, y string) int { return cmp.Compare(ranks[x], ranks[y]) }) {
		parts = append(parts, strings.Join(byText[text], ", ")+" ("+text+")")
	}
	if len(parts) == 0 {
		return ""
	}
	return "these settings of Argo CD have no effect: " + strings.Join(parts, "; ")
}

// applySettings uses the settings about kinds and the global projects. Those of an older
// version count until all of the newer ones are read.
func (a *agent) applySettings(data map[string]string) {
	read, globals := customization.Read(data, jq.New()), project.ReadGlobals(data[project.GlobalsKey])
	if reflect.DeepEqual(read, a.settings.customizations.Load()) && globals.Equal(a.settings.globals.Load()) {
		return
	}
	a.settings.globals.Store(globals)
	a.health.Set(read.Health)
	a.settings.customizations.Store(read)
	a.leading.settingsChanged()
}

// updateSettings uses argocd-cm, or that there is none, and reports it.
func (a *agent) updateSettings(ctx context.Context, found []*corev1.ConfigMap) {
	a.applySettings(a.settings.config.set(found))
	a.reportConfig(ctx)
}

// updateParameters reports argocd-cmd-params-cm, which sets nothing here.
func (a *agent) updateParameters(ctx context.Context, found []*corev1.ConfigMap) {
	a.settings.parameters.set(found)
	a.reportParameters(ctx)
}

// reportConfig and reportParameters report settings without effect that were not
// reported yet. They run when a ConfigMap changes, and when this replica becomes leader.
func (a *agent) reportConfig(ctx context.Context) {
	problems := slices.Clone(a.settings.current().Problems)
	if err := a.settings.globals.Load().Problem(); err != nil {
		problems = append(problems, project.GlobalsKey+": every AppProject allows nothing until it can be read: "+err.Error())
	}
	a.reportSettings(ctx, &a.settings.config, argosetting.Config(), problems)
}

func (a *agent) reportParameters(ctx context.Context) {
	a.reportSettings(ctx, &a.settings.parameters, argosetting.Parameters(), nil)
}

// reportSettings reports one ConfigMap by its table, with problems that reading it had.
func (a *agent) reportSettings(ctx context.Context, settings *reportedSettings, table argosetting.Table, problems []string) {
	settings.mu.Lock()
	defer settings.mu.Unlock()
	found := settings.configMap
	if found == nil {
		return
	}
	texts := slices.Clone(problems)
	if others := describeSettings(table, found.Data); others != "" {
		texts = append(texts, others)
	}
	if len(texts) == 0 {
		return
	}
	text := strings.Join(texts, "; ")
	// Each version is reported once, also when the watch restarts.
	now := settingsVersion{uid: found.UID, version: found.ResourceVersion}
	if settings.logged != now {
		settings.logged = now
		a.log.Warn("settings have no effect", "configmap", found.Namespace+"/"+found.Name, "detail", text)
	}
	if settings.announced == now || a.leading.term.Load() == nil {
		return
	}
	// Set before the request: a failed Event is not retried, as the log has the
	// same text.
	settings.announced = now
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
