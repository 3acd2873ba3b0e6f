package migration

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/rights"
)

// configMaps reports the ConfigMaps of the installation.
func (a *assessment) configMaps(ctx context.Context) error {
	for name, read := range map[string]func(*Object, map[string]string){
		customization.ConfigMap:         readConfig,
		argosetting.ParametersConfigMap: fromTable(argosetting.Parameters()),
		rights.ConfigMap:                readPolicy,
		// These are read as they are.
		credential.KnownHostsConfigMap:  readHosts,
		signature.ConfigMap:             readHosts,
		credential.AuthoritiesConfigMap: readHosts,
		notify.ConfigMap:                fromTable(argosetting.Notifications()),
	} {
		found, err := a.Cluster.Client.CoreV1().ConfigMaps(a.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			a.warn("read the ConfigMap " + a.Namespace + "/" + name + ": " + err.Error())
			continue
		}
		object := newObject("", "ConfigMap", a.Namespace, name)
		read(object, found.Data)
		a.compareConfigMap(ctx, object.finish(), found.Data)
		a.report.Objects = append(a.report.Objects, object)
	}
	return ctx.Err()
}

// compareConfigMap compares the used settings with those of the runtime's own
// ConfigMap: it reads no other namespace.
func (a *assessment) compareConfigMap(ctx context.Context, object *Object, theirs map[string]string) {
	used := usedKeys(object.Name, theirs)
	if len(used) == 0 {
		return
	}
	ours, err := a.Cluster.Client.CoreV1().ConfigMaps(a.ControlNamespace).Get(ctx, object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		a.needsCopy(object)
		// A policy gives rights to people, which is for an administrator to write.
		if object.Name != rights.ConfigMap {
			a.canCopy(object, copyOf(object.Name, theirs, used))
		}
		return
	}
	if err != nil {
		a.warn("read the ConfigMap " + a.ControlNamespace + "/" + object.Name + ": " + err.Error())
		return
	}
	others := slices.DeleteFunc(used, func(key string) bool { return ours.Data[key] == theirs[key] })
	if len(others) > 0 {
		object.Obstacles = append(object.Obstacles, finding.Finding{
			Code: CodeNotCopied, Severity: finding.Warning, Message: "the runtime's own has other values of " + strings.Join(others, ", "),
			Fix: "write them into the ConfigMap " + a.ControlNamespace + "/" + object.Name,
		})
	}
}

// copyOf returns a ConfigMap with some of the settings.
func copyOf(name string, data map[string]string, keys []string) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for _, key := range keys {
		made.Data[key] = data[key]
	}
	return made
}

// usedKeys returns the keys of a ConfigMap that the runtime uses whatever their
// value is.
func usedKeys(name string, data map[string]string) []string {
	tables := map[string]argosetting.Table{
		customization.ConfigMap: argosetting.Config(), argosetting.ParametersConfigMap: argosetting.Parameters(), rights.ConfigMap: argosetting.Policy(),
		notify.ConfigMap: argosetting.Notifications(),
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		table, limited := tables[name]
		setting, _ := table.Of(key, "set")
		if data[key] != "" && (!limited || setting.Effect == argosetting.Same) {
			keys = append(keys, key)
		}
	}
	return keys
}

// fromTable returns a reader that looks keys up.
func fromTable(table argosetting.Table) func(*Object, map[string]string) {
	return func(object *Object, data map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			setting, _ := table.Of(key, data[key])
			object.add(key, setting.Effect, setting.Text)
		}
	}
}

// readConfig reads argocd-cm. A setting that is used and malformed has no effect
// here, so that the runtime does something else.
func readConfig(object *Object, data map[string]string) {
	fromTable(argosetting.Config())(object, data)
	problems := customization.Read(data, jq.New()).Problems
	if err := project.ReadGlobals(data[project.GlobalsKey]).Problem(); err != nil {
		problems = append(problems, project.GlobalsKey+": every AppProject allows nothing until it can be read: "+err.Error())
	}
	for _, problem := range problems {
		key, text, _ := strings.Cut(problem, ": ")
		object.Fields = slices.DeleteFunc(object.Fields, func(f Field) bool { return f.Name == key && f.Effect == argosetting.Same })
		object.add(key, argosetting.Differs, text+": correct it, or remove it")
	}
}

// readPolicy reads argocd-rbac-cm. A line that is refused refuses the policy: it
// may be one that denies.
func readPolicy(object *Object, data map[string]string) {
	fromTable(argosetting.Policy())(object, data)
	_, refused := rights.ParseConfig(data)
	for _, one := range refused {
		object.add(one.Field, argosetting.Refused, one.Message)
	}
}

// readHosts reads known hosts, certificate authorities or keys of signatures.
func readHosts(object *Object, data map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		object.add(key, argosetting.Same, "")
	}
}
