package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// everywhere matches an option that has a server listen at every address. Pods
// have an address each and share the network, so it becomes the address of the
// Pod: the only difference from what the chart has deployed.
var everywhere = regexp.MustCompile(`(?m)(\baddress: )"?(:\d+)"?$`)

// mountAll writes the volumes of the container to where they are mounted.
func (p *pod) mountAll(ctx context.Context) error {
	for _, mount := range p.container().VolumeMounts {
		for i := range p.object.Spec.Volumes {
			volume := &p.object.Spec.Volumes[i]
			if volume.Name != mount.Name {
				continue
			}
			if err := p.mount(ctx, volume, filepath.Join(p.root, mount.MountPath)); err != nil {
				return fmt.Errorf("the volume %s: %w", volume.Name, err)
			}
		}
	}
	return nil
}

// mount writes the files of a volume.
func (p *pod) mount(ctx context.Context, volume *corev1.Volume, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var sources []corev1.VolumeProjection
	switch {
	case volume.EmptyDir != nil:
		return nil
	case volume.ConfigMap != nil:
		from := volume.ConfigMap
		sources = []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: from.LocalObjectReference, Items: from.Items, Optional: from.Optional}}}
	case volume.Secret != nil:
		from := volume.Secret
		sources = []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: from.SecretName}, Items: from.Items, Optional: from.Optional,
		}}}
	case volume.Projected != nil:
		sources = volume.Projected.Sources
	default:
		return fmt.Errorf("this node has no such volumes: %v", volume.VolumeSource)
	}
	for _, source := range sources {
		files, err := p.project(ctx, source, dir)
		if err != nil {
			return err
		}
		for name, content := range files {
			if err := write(filepath.Join(dir, name), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// project reads the files of a source of a volume.
func (p *pod) project(ctx context.Context, source corev1.VolumeProjection, dir string) (map[string][]byte, error) {
	client, namespace := p.node.cluster.Client.CoreV1(), p.object.Namespace
	switch {
	case source.ConfigMap != nil:
		found, err := client.ConfigMaps(namespace).Get(ctx, source.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessOptional(err, source.ConfigMap.Optional)
		}
		content := map[string][]byte{}
		for name, text := range found.Data {
			content[name] = everywhere.ReplaceAll([]byte(text), fmt.Appendf(nil, "${1}%s${2}", p.address))
		}
		return chosen(content, source.ConfigMap.Items, source.ConfigMap.Optional)
	case source.Secret != nil:
		found, err := client.Secrets(namespace).Get(ctx, source.Secret.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessOptional(err, source.Secret.Optional)
		}
		return chosen(found.Data, source.Secret.Items, source.Secret.Optional)
	case source.DownwardAPI != nil:
		made := map[string][]byte{}
		for _, item := range source.DownwardAPI.Items {
			text, err := p.field(item.FieldRef)
			if err != nil {
				return nil, err
			}
			made[item.Path] = []byte(text)
		}
		return made, nil
	case source.ServiceAccountToken != nil:
		return p.token(ctx, source.ServiceAccountToken, dir)
	}
	return nil, fmt.Errorf("this node cannot show %v", source)
}

// token requests a token of the Pod's ServiceAccount, once: it outlives the test.
func (p *pod) token(ctx context.Context, wanted *corev1.ServiceAccountTokenProjection, dir string) (map[string][]byte, error) {
	if _, err := os.Stat(filepath.Join(dir, wanted.Path)); err == nil {
		return nil, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: wanted.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.object.Name, UID: p.object.UID},
	}}
	if wanted.Audience != "" {
		request.Spec.Audiences = []string{wanted.Audience}
	}
	made, err := p.node.cluster.Client.CoreV1().ServiceAccounts(p.object.Namespace).CreateToken(ctx, p.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{wanted.Path: []byte(made.Status.Token)}, nil
}

// chosen returns the files of a volume with items.
func chosen(content map[string][]byte, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	if len(items) == 0 {
		return content, nil
	}
	files := map[string][]byte{}
	for _, item := range items {
		one, found := content[item.Key]
		switch {
		case found:
			files[item.Path] = one
		case optional == nil || !*optional:
			return nil, fmt.Errorf("there is no key %s", item.Key)
		}
	}
	return files, nil
}

// unlessOptional drops the error of an optional object that does not exist.
func unlessOptional(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// environment returns the variables of the image, of every Pod, and of the
// container.
func (p *pod) environment(ctx context.Context) ([]string, error) {
	server, err := url.Parse(p.node.cluster.Config.Host)
	if err != nil {
		return nil, err
	}
	made := []string{
		// The directories of this machine are for what enters the Pod.
		"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "HOSTNAME=" + p.object.Name,
		"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port(),
		// Loopback is shared too.
		"SLIPWAY_ADMIN_ADDRESS=127.0.0.1:0",
	}
	// So are the Git servers of tests.
	if slices.Contains(p.container().Args, "agent") {
		made = append(made, "SLIPWAY_OUTBOUND_ALLOW=127.0.0.1,::1")
	}
	for _, variable := range p.container().Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil {
			switch {
			case from.FieldRef != nil:
				value, err = p.field(from.FieldRef)
			case from.SecretKeyRef != nil:
				var found *corev1.Secret
				if found, err = p.node.cluster.Client.CoreV1().Secrets(p.object.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{}); err == nil {
					value = string(found.Data[from.SecretKeyRef.Key])
				}
			default:
				err = fmt.Errorf("this node cannot give the variable %s", variable.Name)
			}
			if err != nil {
				return nil, err
			}
		}
		made = append(made, variable.Name+"="+value)
	}
	return made, nil
}

// field returns a field of the downward API.
func (p *pod) field(from *corev1.ObjectFieldSelector) (string, error) {
	switch from.FieldPath {
	case "metadata.name":
		return p.object.Name, nil
	case "metadata.namespace":
		return p.object.Namespace, nil
	case "spec.nodeName":
		return p.object.Spec.NodeName, nil
	case "status.podIP":
		return p.address.String(), nil
	}
	return "", fmt.Errorf("this node does not know the field %s", from.FieldPath)
}

// write replaces the content of a file in one step.
func write(path string, content []byte) error {
	if known, err := os.ReadFile(path); err == nil && bytes.Equal(known, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
