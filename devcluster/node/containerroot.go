package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// containerRoot builds the directory that a program sees as its root: nothing
// but the program and the volumes of its container. It lives for one start of
// the container. Volumes are not updated while the container runs, and two
// containers share no emptyDir.
type containerRoot struct {
	dir       string
	pod       *corev1.Pod
	container *corev1.Container
	source    configSource
}

// volumeFile is one file of a volume, at a path below its mount.
type volumeFile struct {
	path string
	data []byte
	mode os.FileMode
}

// build replaces the directory and returns the path of the program in it.
func (r *containerRoot) build(ctx context.Context, program string) (executable string, err error) {
	if err := os.RemoveAll(r.dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return "", err
	}
	// os.Root refuses every path of a manifest that would leave the directory.
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for i := range r.container.VolumeMounts {
		mount := &r.container.VolumeMounts[i]
		if err := r.mount(ctx, root, mount); err != nil {
			return "", fmt.Errorf("volume %q: %w", mount.Name, err)
		}
	}
	name := filepath.Base(program)
	return "/" + name, linkOrCopy(program, filepath.Join(r.dir, name))
}

// mount writes the files of a volume below its mount path.
func (r *containerRoot) mount(ctx context.Context, root *os.Root, mount *corev1.VolumeMount) error {
	if mount.SubPath != "" || mount.SubPathExpr != "" {
		return fmt.Errorf("subPath is not supported by the process node; mount the whole volume at %s", mount.MountPath)
	}
	at := strings.TrimPrefix(path.Clean("/"+mount.MountPath), "/")
	if at == "" {
		return errors.New("it cannot be mounted at /")
	}
	if err := root.MkdirAll(at, 0o755); err != nil {
		return err
	}
	files, err := r.files(ctx, mount.Name)
	if err != nil {
		return err
	}
	for _, file := range files {
		name := path.Join(at, file.path)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, file.data, file.mode); err != nil {
			return err
		}
	}
	return nil
}

// files returns the content of a ConfigMap or Secret volume. Volumes of other
// kinds are empty.
func (r *containerRoot) files(ctx context.Context, volume string) ([]volumeFile, error) {
	for i := range r.pod.Spec.Volumes {
		v := &r.pod.Spec.Volumes[i]
		switch {
		case v.Name != volume:
		case v.Secret != nil:
			secret, err := r.source.secret(ctx, r.pod.Namespace, v.Secret.SecretName)
			if err != nil {
				return nil, unlessOptional(err, v.Secret.Optional)
			}
			return projection{"Secret", v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional}.files(secret.Data)
		case v.ConfigMap != nil:
			cm, err := r.source.configMap(ctx, r.pod.Namespace, v.ConfigMap.Name)
			if err != nil {
				return nil, unlessOptional(err, v.ConfigMap.Optional)
			}
			data := map[string][]byte{}
			for key, value := range cm.Data {
				data[key] = []byte(value)
			}
			for key, value := range cm.BinaryData {
				data[key] = value
			}
			return projection{"ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional}.files(data)
		}
	}
	return nil, nil
}

// projection is the choice of a volume among the keys of a ConfigMap or Secret.
type projection struct {
	kind, name string
	items      []corev1.KeyToPath
	mode       *int32
	optional   *bool
}

// files returns the items of the volume, or all keys if it lists none.
func (p projection) files(data map[string][]byte) ([]volumeFile, error) {
	items := p.items
	if len(items) == 0 {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	var files []volumeFile
	for _, item := range items {
		content, found := data[item.Key]
		if err := unlessFound(found, p.optional, p.kind, p.name, item.Key); err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		file := volumeFile{path: item.Path, data: content, mode: 0o644}
		// The mode of an item overrides that of the volume.
		for _, set := range []*int32{p.mode, item.Mode} {
			if set != nil {
				file.mode = os.FileMode(*set).Perm()
			}
		}
		files = append(files, file)
	}
	return files, nil
}

// linkOrCopy gives a file another name. A hard link needs no space, and cannot
// cross file systems.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	// O_EXCL: a volume may be mounted at this path.
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	return target.Close()
}
