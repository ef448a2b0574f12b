// Debian: openjdk-17-jdk-headless
import java.io.*;
import java.net.URL;
import java.nio.file.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

class Client {
    static SSLContext trusting() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (InputStream file = new FileInputStream(System.getenv("AUTHORITY"))) {
            var factory = CertificateFactory.getInstance("X.509");
            store.setCertificateEntry("authority", factory.generateCertificate(file));
        }
        var trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trusted.getTrustManagers(), null);
        return context;
    }

    static HttpsURLConnection to(String url) throws Exception {
        var connection = (HttpsURLConnection) new URL(url).openConnection();
        connection.setSSLSocketFactory(factory);
        return connection;
    }

    // A connection is kept for the factory that has made it.
    static SSLSocketFactory factory;

    static void ask(HttpsURLConnection connection) throws Exception {
        try (InputStream body = connection.getInputStream()) {
            body.transferTo(System.out);
        }
        System.out.flush();
    }

    public static void main(String[] words) throws Exception {
        factory = trusting().getSocketFactory();
        String url = words[1];
        switch (words[0]) {
            case "page" -> ask(to(url));
            case "kept", "later" -> {
                ask(to(url));
                if (words[0].equals("later")) {
                    System.in.read();
                }
                ask(to(words[2]));
            }
            case "range" -> {
                byte[] part = Files.readAllBytes(Path.of(words[2]));
                System.out.write(part);
                var connection = to(url);
                connection.setRequestProperty("Range", "bytes=" + part.length + "-");
                ask(connection);
            }
            case "upload" -> {
                var connection = to(url);
                connection.setRequestProperty("Expect", "100-continue");
                connection.setDoOutput(true);
                connection.setFixedLengthStreamingMode(Files.size(Path.of(words[2])));
                Files.copy(Path.of(words[2]), connection.getOutputStream());
                ask(connection);
            }
            default -> System.exit(64);
        }
    }
}
