{{ means(['day']) }}
