package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// listenVariable carries the listen addresses of a built-in image; it overrides
// a variable of the same name in the manifest.
const listenVariable = "SLIPWAY_DEMO_LISTEN"

// configSource reads the objects that a container's environment refers to.
// Tests implement it in memory.
type configSource interface {
	configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// environment holds the inputs of a container's variables. It lives for one
// start of the container.
type environment struct {
	pod       *corev1.Pod
	container *corev1.Container
	podIP     netip.Addr
	hostIP    netip.Addr
	capacity  corev1.ResourceList
	source    configSource
}

// variables is an environment under construction: ordered, each name once. A
// later value replaces an earlier one in its place.
type variables struct {
	names  []string
	values map[string]string
}

// set adds a variable or replaces its value.
func (v *variables) set(name, value string) {
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// list returns the variables as NAME=value, in the order of their first set.
func (v *variables) list() []string {
	out := make([]string, 0, len(v.names))
	for _, name := range v.names {
		out = append(out, name+"="+v.values[name])
	}
	return out
}

// build returns the variables of the container by name, and the whole
// environment of its process. Of the node's own environment only PATH is passed
// on: the rest belongs to the user of this machine and may hold credentials.
func (e *environment) build(ctx context.Context, image Image, listen string) (own map[string]string, all []string, err error) {
	declared := &variables{values: map[string]string{}}
	// envFrom first: env overrides it, and references in env may use its names.
	for i := range e.container.EnvFrom {
		if err := e.addFrom(ctx, declared, &e.container.EnvFrom[i]); err != nil {
			return nil, nil, err
		}
	}
	for i := range e.container.Env {
		v := &e.container.Env[i]
		// A reference sees only the variables declared before it.
		value, present := expand(v.Value, declared.values), true
		if v.Value == "" && v.ValueFrom != nil {
			if value, present, err = e.valueFrom(ctx, v.ValueFrom); err != nil {
				return nil, nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
			}
		}
		if present {
			declared.set(v.Name, value)
		}
	}

	// The order is the precedence: machine, image, container, and last the
	// listen addresses, which the manifest must not change.
	process := &variables{values: map[string]string{}}
	if path, found := os.LookupEnv("PATH"); found {
		process.set("PATH", path)
	}
	process.set("HOSTNAME", e.pod.Name)
	for _, entry := range image.Env {
		if name, value, found := strings.Cut(entry, "="); found {
			process.set(name, value)
		}
	}
	for _, name := range declared.names {
		// Checked here rather than in refuse: envFrom brings names that the
		// Pod's spec does not show.
		if loaderVariable(name) {
			return nil, nil, fmt.Errorf("environment variable %s changes how this machine loads programs and is refused by the process node; remove it", name)
		}
		process.set(name, declared.values[name])
	}
	process.set(listenVariable, listen)
	return declared.values, process.list(), nil
}

// addFrom adds every key of a ConfigMap or Secret, with the prefix. An optional
// object that does not exist adds nothing.
func (e *environment) addFrom(ctx context.Context, to *variables, from *corev1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		cm, err := e.source.configMap(ctx, e.pod.Namespace, from.ConfigMapRef.Name)
		if err != nil {
			return unlessOptional(err, from.ConfigMapRef.Optional)
		}
		for name, value := range cm.Data {
			to.set(from.Prefix+name, value)
		}
	case from.SecretRef != nil:
		secret, err := e.source.secret(ctx, e.pod.Namespace, from.SecretRef.Name)
		if err != nil {
			return unlessOptional(err, from.SecretRef.Optional)
		}
		for name, value := range secret.Data {
			to.set(from.Prefix+name, string(value))
		}
	}
	return nil
}

// valueFrom resolves one reference; present is false when an optional object or
// key does not exist, and the variable is then not set.
func (e *environment) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, present bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = e.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = e.resource(from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := e.source.configMap(ctx, e.pod.Namespace, ref.Name)
		if err != nil {
			return "", false, unlessOptional(err, ref.Optional)
		}
		value, found := cm.Data[ref.Key]
		return value, found, unlessFound(found, ref.Optional, "ConfigMap", ref.Name, ref.Key)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := e.source.secret(ctx, e.pod.Namespace, ref.Name)
		if err != nil {
			return "", false, unlessOptional(err, ref.Optional)
		}
		value, found := secret.Data[ref.Key]
		return string(value), found, unlessFound(found, ref.Optional, "Secret", ref.Name, ref.Key)
	}
	return "", false, fmt.Errorf("the process node does not support this kind of valueFrom; use fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef")
}

// unlessOptional drops a not-found error of an optional reference. Other errors
// remain: the object may exist.
func unlessOptional(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// unlessFound returns the error for a missing key, unless the reference is
// optional.
func unlessFound(found bool, optional *bool, kind, name, key string) error {
	if found || optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("%s %q has no key %q; add it or mark the reference optional", kind, name, key)
}

// field resolves the fieldRefs that Kubernetes allows in an environment. A
// missing label or annotation is the empty string. The addresses come from the
// node, because the Pod's status may not have them yet.
func (e *environment) field(path string) (string, error) {
	if name, found := subscript(path, "metadata.labels"); found {
		return e.pod.Labels[name], nil
	}
	if name, found := subscript(path, "metadata.annotations"); found {
		return e.pod.Annotations[name], nil
	}
	switch path {
	case "metadata.name":
		return e.pod.Name, nil
	case "metadata.namespace":
		return e.pod.Namespace, nil
	case "metadata.uid":
		return string(e.pod.UID), nil
	case "spec.nodeName":
		return e.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return e.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return e.podIP.String(), nil
	case "status.hostIP", "status.hostIPs":
		return e.hostIP.String(), nil
	}
	return "", fmt.Errorf("unknown field %q in fieldRef", path)
}

// subscript extracts NAME from prefix['NAME'].
func subscript(path, prefix string) (string, bool) {
	rest, found := strings.CutPrefix(path, prefix+"['")
	if !found {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// resource resolves a resourceFieldRef, rounded up to the divisor. The node
// enforces no limits, but programs size themselves by these values; a limit
// that is not set is the machine's capacity, as in Kubernetes.
func (e *environment) resource(ref *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var from corev1.ResourceList
	switch kind {
	case "limits":
		from = e.container.Resources.Limits
	case "requests":
		from = e.container.Resources.Requests
	default:
		return "", fmt.Errorf("unknown resource %q in resourceFieldRef", ref.Resource)
	}
	quantity, set := from[corev1.ResourceName(name)]
	if !set && kind == "limits" {
		quantity = e.capacity[corev1.ResourceName(name)]
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
	}
	// CPU is fractional and is compared in thousandths; all other resources are
	// whole numbers.
	value, per := quantity.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		value, per = quantity.MilliValue(), divisor.MilliValue()
	}
	if per <= 0 {
		return "", fmt.Errorf("the divisor %s in resourceFieldRef must be positive", divisor.String())
	}
	return strconv.FormatInt((value+per-1)/per, 10), nil
}

// expand replaces $(NAME) with the value of NAME. As in Kubernetes, $$ is a
// literal dollar sign that starts no reference, and a reference to an unknown
// name stays as it is written.
func expand(in string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(in, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if rest, escaped := strings.CutPrefix(after, "$"); escaped {
			out.WriteByte('$')
			in = rest
			continue
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		if !strings.HasPrefix(after, "(") || !closed {
			out.WriteByte('$')
			in = after
			continue
		}
		if value, known := values[name]; known {
			out.WriteString(value)
		} else {
			out.WriteString("$(" + name + ")")
		}
		in = rest
	}
}
