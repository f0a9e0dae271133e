{{ means(['day', 'segment']) }}
