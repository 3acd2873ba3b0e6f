package traefik

// Fields returns the fields of all Middlewares that are converted.
func Fields() []Field {
	var fields []Field
	kinds, _ := MiddlewareKinds()
	for _, kind := range kinds {
		fields = append(fields, fieldsOf(kind)...)
	}
	return fields
}
