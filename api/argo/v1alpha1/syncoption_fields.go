package v1alpha1

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// optionField is one field of SyncOptions, as its tags declare it.
type optionField struct {
	name          string
	values        []string
	ofApplication bool
	target        reflect.Value
}

func (f *optionField) value() string           { return f.target.String() }
func (f *optionField) set(value string)        { f.target.SetString(value) }
func (f *optionField) takes(value string) bool { return slices.Contains(f.values, value) }

// optionFields lists the options in the order of their declaration.
func optionFields(of *SyncOptions) []*optionField {
	structure := reflect.ValueOf(of).Elem()
	fields := make([]*optionField, 0, structure.NumField())
	for i := range structure.NumField() {
		tag := structure.Type().Field(i).Tag
		values := cmp.Or(tag.Get("values"), string(On)+","+string(Off))
		fields = append(fields, &optionField{
			name: tag.Get("option"), values: strings.Split(values, ","), ofApplication: tag.Get("scope") == "application",
			target: structure.Field(i),
		})
	}
	return fields
}
